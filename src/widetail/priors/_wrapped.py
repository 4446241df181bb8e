"""Distributions of scipy and numpyro as priors; numpyro is recognised by what it can do and never imported."""

from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats
from jaxtyping import Array, PRNGKeyArray

from widetail.files import savable
from widetail.numerics import Bounds, Cuts, concrete, double_precision, integrate, is_traced, namespace
from widetail.priors._base import ScalePrior
from widetail.priors._inversion import LOG_LARGEST, LOG_SMALLEST, log_quantile_by_root
from widetail.priors._modes import Modes, find_modes
from widetail.priors._parameters import Values

_INTEGRAL_NODES = 256
# The log density of another library is used up to exp(+-this).
_TRUSTED = 300.0


def wrap(dist: Any) -> ScalePrior:
    """A distribution of scipy or numpyro as a prior; a prior as it is."""
    if isinstance(dist, ScalePrior):
        return dist
    is_frozen = not hasattr(dist, "freeze")
    if hasattr(dist, "logpdf") and hasattr(dist, "support") and is_frozen:
        return ScipyPrior(dist)
    if hasattr(dist, "log_prob") and hasattr(dist, "sample") and hasattr(dist, "support"):
        return NumpyroPrior(dist)
    raise TypeError(
        f"ScalePrior.wrap: dist must be a frozen scipy.stats distribution or a numpyro distribution, got "
        f"{dist!r} ({type(dist).__name__}); freeze it first, as in scipy.stats.invgamma(2.0, scale=2.0)."
    )


class WrappedPrior(ScalePrior):
    """A distribution of another library; its modes and its tail are measured."""

    dist: eqx.AbstractVar[Any]
    _modes: eqx.AbstractVar[Modes]  # found when the distribution was wrapped

    @property
    @double_precision
    def tail_index(self) -> Values:
        """The slope of the log density far out."""
        return _measured_tail_index(self)

    @property
    def log_cuts(self) -> Cuts:
        return self._modes.cuts

    @property
    def mass_error(self) -> float:
        return self._modes.mass_error


@savable("priors.scipy")
class ScipyPrior(WrappedPrior):
    """A frozen `scipy.stats` distribution of the readout variance, of the old or of the new kind.

    It runs in NumPy, hence only outside of `jax.jit` and without derivatives in its parameters.

    Example:
        >>> import scipy.stats
        >>> from widetail import priors
        >>> round(float(priors.ScalePrior.wrap(scipy.stats.uniform(1.0, 2.0)).quantile(0.25)), 12)
        1.5
    """

    traceable: ClassVar[bool] = False

    dist: Any = eqx.field(static=True)
    _modes: Modes = eqx.field(static=True)

    def __init__(self, dist: Any):
        self.dist = dist
        self._modes = Modes()
        lower, upper = (np.asarray(end, float) for end in dist.support())
        _check_positive(lower, upper)
        if lower.ndim == 0:
            self._modes = find_modes(self)

    def log_prob_of_log(self, log_scale: Any) -> Any:
        return _extended(lambda t: self._call("logpdf", t) + t, log_scale)

    def tails_of_log(self, log_scale: Values) -> tuple[Values, Values]:
        above = "sf" if hasattr(self.dist, "sf") else "ccdf"
        return self._call("cdf", log_scale), self._call(above, log_scale)

    def log_quantile(self, p: Values) -> Values:
        return np.log(self._icdf(np.asarray(p)))

    def draw_log(self, key: PRNGKeyArray | Array, shape: tuple[int, ...]) -> Values:
        shape = shape + np.shape(self._icdf(0.5))
        return self.log_quantile(concrete(jax.random.uniform(key, shape, dtype=float)))

    def expectation(self) -> np.ndarray | float:
        mean = np.asarray(self.dist.mean(), float)
        return np.where(np.isnan(mean), np.inf, mean)  # a positive variable: undefined means infinite

    def to_config(self) -> dict[str, Any]:
        """Name and parameters of the scipy distribution; only frozen ones of `scipy.stats` have them."""
        name = getattr(getattr(self.dist, "dist", None), "name", None)
        if name is None:
            raise ValueError(
                f"{self!r} cannot be written down: it is not a frozen distribution of scipy.stats such as "
                f"scipy.stats.invgamma(2.0). Use one, or a prior of widetail, to save the model."
            )
        args = [np.asarray(value).tolist() for value in self.dist.args]
        return {"name": "scipy", "params": {"dist": name, "args": args, **_listed(self.dist.kwds)}}

    def saved_fields(self) -> dict[str, Any]:
        """What a file holds."""
        return self.to_config()["params"]

    @classmethod
    def from_saved(cls, fields: dict[str, Any]) -> "ScipyPrior":
        """The prior whose `saved_fields` these are."""
        keywords = dict(fields)
        name, args = keywords.pop("dist"), keywords.pop("args")
        family = getattr(scipy.stats, name, None)
        if not isinstance(family, scipy.stats.rv_continuous):
            raise ValueError(f"scipy.stats has no continuous distribution {name!r}")
        return cls(family(*args, **keywords))

    def __repr__(self) -> str:
        """The code that makes this prior, where scipy tells its name."""
        frozen = self.dist
        if hasattr(frozen, "dist"):
            arguments = [
                *map(repr, frozen.args),
                *(f"{name}={value!r}" for name, value in frozen.kwds.items()),
            ]
            return f"ScalePrior.wrap(scipy.stats.{frozen.dist.name}({', '.join(arguments)}))"
        return f"ScalePrior.wrap({frozen!r})"

    @property
    def log_middle(self) -> np.ndarray | float:
        return np.log(self._icdf(0.5))

    @property
    def log_bounds(self) -> Bounds:
        return _log_bounds(*self.dist.support())

    def _icdf(self, p: Any) -> np.ndarray | float:
        return self.dist.ppf(p) if hasattr(self.dist, "ppf") else self.dist.icdf(p)

    def _call(self, method: str, log_scale: Any) -> Any:
        if is_traced(log_scale):
            raise TypeError(
                f"{self!r} runs in scipy and cannot be used inside jax.jit or jax.grad; "
                f"use a prior of widetail or a numpyro distribution there."
            )
        scale = np.exp(np.clip(np.asarray(log_scale, float), LOG_SMALLEST, LOG_LARGEST))
        with np.errstate(all="ignore"):
            return namespace(log_scale).asarray(getattr(self.dist, method)(scale), float)


class NumpyroPrior(WrappedPrior):
    """A numpyro distribution of the readout variance; differentiable in its parameters.

    What numpyro does not offer for a distribution (a cdf, a quantile, a mean) is computed by quadrature.

    Example:
        >>> import numpyro.distributions as dist
        >>> from widetail import priors
        >>> round(float(priors.ScalePrior.wrap(dist.HalfNormal(1.0)).quantile(0.5)), 4)
        0.6745
    """

    runs_in_numpy: ClassVar[bool] = False

    dist: Any
    _modes: Modes = eqx.field(static=True)

    def __init__(self, dist: Any):
        self._modes = Modes()
        if tuple(dist.event_shape) or tuple(dist.batch_shape):
            raise ValueError(
                f"ScalePrior.wrap: dist must be one scalar distribution, got batch shape "
                f"{tuple(dist.batch_shape)} and event shape {tuple(dist.event_shape)}; "
                f"wrap a distribution with scalar parameters."
            )
        if not is_traced(dist):
            dist = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), dist)
            _check_positive(*_numpyro_support(dist))
        self.dist = dist
        if not is_traced(dist):
            with jax.enable_x64(True):
                self._modes = find_modes(self)

    def log_prob_of_log(self, log_scale: Values) -> Values:
        return _numpyro_log_density(self, jnp.asarray(log_scale, float))

    def tails_of_log(self, log_scale: Values) -> tuple[Values, Values]:
        return _numpyro_tails(self, jnp.asarray(log_scale, float))

    def log_quantile(self, p: Values) -> Values:
        return log_quantile_by_root(self, jnp.asarray(p, float))

    def draw_log(self, key: PRNGKeyArray | Array, shape: tuple[int, ...]) -> Values:
        return jnp.log(self.dist.sample(key, shape))

    def expectation(self) -> Values:
        return jnp.where(self.tail_index > 1, _integrated_mean(self), jnp.inf)

    def to_config(self) -> dict[str, Any]:
        """Numpyro distributions cannot be rebuilt without numpyro: raises."""
        raise ValueError(
            f"{self!r} cannot be written down, because widetail never imports numpyro. "
            f"Use the same distribution of widetail or of scipy.stats to save the model."
        )

    def __repr__(self) -> str:
        """The code that makes this prior."""
        arguments = ", ".join(f"{name}={getattr(self.dist, name)!s}" for name in self.dist.arg_constraints)
        return f"ScalePrior.wrap(numpyro.distributions.{type(self.dist).__name__}({arguments}))"

    @property
    def log_middle(self) -> Values:
        lower, upper = self.log_bounds
        if lower is not None and upper is not None:
            return 0.5 * (lower + upper)
        if lower is not None:
            return lower + 1
        return jnp.zeros(()) if upper is None else upper - 1

    @property
    def log_bounds(self) -> Bounds:
        return _log_bounds(*_numpyro_support(self.dist))


@jax.jit
def _numpyro_log_density(prior: NumpyroPrior, log_scale: Array) -> Array:
    lower, upper = prior.log_bounds

    def log_density(t):
        inside = jnp.ones(t.shape, bool)
        inside = inside if lower is None else inside & (t >= lower)
        inside = inside if upper is None else inside & (t <= upper)
        # Outside of the support numpyro may answer anything, NaN included.
        scale = jnp.exp(jnp.where(inside, t, prior.log_middle))
        return jnp.where(inside, prior.dist.log_prob(scale) + t, -jnp.inf)

    return _extended(log_density, log_scale)


@jax.jit
def _numpyro_tails(prior: NumpyroPrior, log_scale: Array) -> tuple[Array, Array]:
    try:
        below = prior.dist.cdf(jnp.exp(jnp.clip(log_scale, LOG_SMALLEST, LOG_LARGEST)))
        return below, 1 - below
    except NotImplementedError:
        return _integrated_tails(prior, log_scale)


@jax.jit
def _integrated_mean(prior: NumpyroPrior) -> Values:
    middle = jnp.asarray(prior.log_middle, float)

    def log_density(t):
        return t + prior.log_prob_of_log(t)

    return jnp.exp(
        integrate(log_density, (middle, middle), _INTEGRAL_NODES, prior.log_bounds, prior.log_cuts).log_value
    )


def _integrated_tails(prior: NumpyroPrior, log_scale: Values) -> tuple[Values, Values]:
    lower, upper = prior.log_bounds
    middle = jnp.broadcast_to(jnp.asarray(prior.log_middle, float), log_scale.shape)
    near = jnp.minimum(middle, log_scale), jnp.maximum(middle, log_scale)
    below = integrate(prior.log_prob_of_log, near, _INTEGRAL_NODES, Bounds(lower, log_scale), prior.log_cuts).log_value
    above = integrate(prior.log_prob_of_log, near, _INTEGRAL_NODES, Bounds(log_scale, upper), prior.log_cuts).log_value
    # Of a whole that is finite, a part that seems infinite is one whose slope is too steep to be resolved.
    nothing_below = jnp.isinf(below) if lower is None else jnp.isinf(below) | (log_scale <= lower)
    nothing_above = jnp.isinf(above) if upper is None else jnp.isinf(above) | (log_scale >= upper)
    odds = jnp.where(nothing_below, -jnp.inf, jnp.where(nothing_above, jnp.inf, below - above))
    return jax.nn.sigmoid(odds), jax.nn.sigmoid(-odds)


def _extended(log_density: Callable[[Any], Any], log_scale: Any) -> Any:
    """A log density that is continued as a power law where other libraries overflow."""
    xp = namespace(log_scale)
    near, far = 0.9 * _TRUSTED, _TRUSTED
    outside = xp.abs(log_scale) > far
    if xp is np and not np.any(outside):  # a density of scipy takes a millisecond, whatever it is asked
        return log_density(log_scale)
    left_far, left_near, right_near, right_far = log_density(xp.asarray([-far, -near, near, far], float))
    slope = xp.where(log_scale < 0, left_near - left_far, right_near - right_far) / (far - near)
    end = xp.where(log_scale < 0, left_far, right_far)
    # A density that grows outwards this far out is an artefact of rounding.
    decays = outside & xp.isfinite(end) & (slope > 0)
    beyond = xp.where(decays, end - xp.where(decays, slope, 0.0) * (xp.abs(log_scale) - far), -xp.inf)
    return xp.where(outside, beyond, log_density(xp.where(outside, 0.0, log_scale)))


def _measured_tail_index(prior: ScalePrior) -> Values:
    if prior.log_bounds.upper is not None:
        return np.float64(np.inf)
    near, far = 0.9 * _TRUSTED, _TRUSTED
    xp = jnp if prior.traceable else np
    log_near, log_far = prior.log_prob_of_log(xp.asarray([near, far], float))
    decays = xp.isfinite(log_far)
    # Rounding must not turn an index of exactly one into a mean that exists.
    slope = xp.where(decays, log_near - log_far, 1.0) / (far - near)
    return xp.where(decays, xp.round(slope, 9), xp.inf)[()]


def _numpyro_support(dist: Any) -> tuple[Any, Any]:
    return getattr(dist.support, "lower_bound", -np.inf), getattr(dist.support, "upper_bound", np.inf)


def _log_bounds(lower: Any, upper: Any) -> Bounds:
    # A traced end is a parameter of a bounded distribution: it is finite and positive.
    has_lower = is_traced(lower) or bool(np.all(np.asarray(lower) > 0))
    has_upper = is_traced(upper) or bool(np.all(np.isfinite(np.asarray(upper))))
    log = jnp.log if is_traced(lower, upper) else np.log
    return Bounds(log(lower) if has_lower else None, log(upper) if has_upper else None)


def _check_positive(lower: Any, upper: Any) -> None:
    if not np.all(np.asarray(lower) >= 0) or not np.all(np.asarray(upper) > 0):
        raise ValueError(
            f"ScalePrior.wrap: dist must live on the positive reals, its support is ({lower}, {upper}); "
            f"it is the prior of a variance. Wrap e.g. a log-normal instead, or truncate it."
        )


def _listed(keywords: dict[str, Any]) -> dict[str, Any]:
    return {name: np.asarray(value).tolist() for name, value in keywords.items()}
