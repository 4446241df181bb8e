"""The posterior of the readout variance by the trapezoidal rule, for any prior."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from widetail.mixing._likelihoods import ScaleLikelihood, gaussian_log_factor, gaussian_log_peak
from widetail.mixing._posterior import ScaleDiagnostics, ScalePosterior, where_they_exist
from widetail.numerics import Bounds, Integral, concrete, increasing_root, integrate, is_traced, namespace
from widetail.numerics.special import logsumexp, sigmoid
from widetail.priors import ScalePrior, Values

# The log evidence changes by less than this when every second node is left out, or nodes are added.
_TOLERANCE = 1e-7
_MOST_NODES = 4096
_SAMPLING_NODES = 4096
_LARGE = 1000


def _compiled_if_large(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function of a prior and a likelihood for large or traced arguments, or priors that only JAX knows.

    NumPy answers the others in milliseconds: the first question about a posterior should not take seconds.
    """
    jitted = jax.jit(function, static_argnames="nodes")

    @functools.wraps(function)
    def call(prior: ScalePrior, likelihood: ScaleLikelihood, *arguments: Any, nodes: int) -> Any:
        is_small = namespace(prior, likelihood, arguments) is np and _size(likelihood, arguments) < _LARGE
        if prior.traceable and not (is_small and prior.runs_in_numpy):
            return jax.tree.map(concrete, jitted(prior, likelihood, *arguments, nodes=nodes))
        likelihood, arguments = jax.tree.map(np.asarray, (likelihood, arguments))
        with np.errstate(all="ignore"):
            return function(prior, likelihood, *arguments, nodes=nodes)

    return call


def _size(likelihood: ScaleLikelihood, arguments: tuple[Any, ...]) -> int:
    """Number of integrals times the number of terms of a likelihood."""
    questions = [np.size(argument.log_value if isinstance(argument, Integral) else argument) for argument in arguments]
    return max(questions, default=1) * max(np.size(leaf) for leaf in jax.tree.leaves(likelihood))


class QuadraturePosterior(ScalePosterior):
    """A posterior known through its density: `prior` times `likelihood`, normalised by quadrature."""

    prior: ScalePrior
    likelihood: ScaleLikelihood
    integral: Integral
    log_evidence: Any
    diagnostics: ScaleDiagnostics

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return jnp.shape(self.integral.log_value)

    @property
    def tail_index(self) -> Values:
        total = self.prior.tail_index + self.likelihood.tail_power
        return namespace(total).broadcast_to(total, self.batch_shape)

    def log_prob_of_log(self, log_scale: Values) -> Values:
        shape = jnp.broadcast_shapes(log_scale.shape, self.batch_shape)
        log_scale = namespace(log_scale).broadcast_to(log_scale, shape)
        density = _flat_log_joint(self.prior, self.likelihood, log_scale)
        return density - self.log_evidence

    def below_log(self, log_scale: Values) -> Values:
        log_below, log_above = _log_tails(self.prior, self.likelihood, log_scale, nodes=self._tail_nodes)
        return sigmoid(log_below - log_above)

    def log_quantile(self, p: Values) -> Values:
        root = _log_quantile(self.prior, self.likelihood, self.integral, p, nodes=self._tail_nodes)
        lower, upper = self.prior.log_bounds
        xp = namespace(p, root)
        lowest = -xp.inf if lower is None else lower
        highest = xp.inf if upper is None else upper
        return xp.where(p <= 0, lowest, xp.where(p >= 1, highest, root))

    def draw_log(self, key: PRNGKeyArray | Array, shape: tuple[int, ...]) -> Values:
        uniform = concrete(jax.random.uniform(key, shape + self.batch_shape, dtype=float))
        return _draw_log(self.prior, self.likelihood, self.integral, uniform, nodes=_SAMPLING_NODES)

    def mean_and_var(self) -> tuple[Values, Values]:
        mean, var = _mean_and_var(self.prior, self.likelihood, self.integral, nodes=self._tail_nodes)
        return where_they_exist(mean, var, self.tail_index)

    def log_nodes(self, refine: int = 1) -> tuple[Values, Values]:
        points, log_terms = self.integral.points, self.integral.log_terms
        if refine > 1:
            nodes = refine * self.diagnostics.nodes
            points, log_terms = _refined(self.prior, self.likelihood, self.integral, nodes=nodes)
        return points, log_terms - logsumexp(log_terms)

    def log_expected_gaussian(self, count: ArrayLike, quad: Values) -> Values:
        count, quad = np.asarray(count, float), namespace(quad).asarray(quad, float)
        nodes = self.diagnostics.nodes
        return _log_expected_gaussian(self.prior, self.likelihood, self.integral, count, quad, nodes=nodes)

    @property
    def _tail_nodes(self) -> int:
        """A tail, cut at its steepest point, needs more nodes than the whole; so do high moments."""
        return max(256, self.diagnostics.nodes)


def quadrature_posterior(prior: ScalePrior, likelihood: ScaleLikelihood, nodes: int) -> QuadraturePosterior:
    """Integrate prior times likelihood; with concrete numbers, double the nodes until it has converged."""
    integral = posterior_integral(prior, likelihood, nodes=nodes)
    if not is_traced(integral):
        _check_proper(prior, likelihood, integral)
        while nodes < _MOST_NODES and np.any(np.asarray(integral.coarse_gap) > _TOLERANCE):
            nodes *= 2
            integral = posterior_integral(prior, likelihood, nodes=nodes)
    # what the prior's modes leave out of its own mass is missing here as well
    diagnostics = ScaleDiagnostics("quadrature", nodes, error=integral.coarse_gap + prior.mass_error)
    return QuadraturePosterior(
        prior=prior,
        likelihood=likelihood,
        integral=integral,
        log_evidence=integral.log_value,
        diagnostics=diagnostics,
    )


def _check_proper(prior: ScalePrior, likelihood: ScaleLikelihood, integral: Integral) -> None:
    if np.all(np.isfinite(np.asarray(integral.log_value))):
        return
    if np.any(np.asarray(integral.empty)):
        raise ValueError(
            f"prior and data contradict each other beyond float64: {prior!r} gives no probability to a "
            f"readout variance near {jnp.exp(likelihood.log_peak)}, which the targets ask for; "
            f"widen the prior or rescale the targets."
        )
    raise ValueError(
        f"the posterior of the readout variance does not exist: {prior!r} has too much mass near 0 (or at "
        f"infinity) for these targets, which are probably all zero; use a prior that vanishes at 0, such as "
        f"InverseGamma or LogNormal, or targets that vary."
    )


def _log_joint(prior: ScalePrior, likelihood: ScaleLikelihood, log_scale: Any) -> Any:
    return prior.log_prob_of_log(log_scale) + likelihood.log_prob_of_log(log_scale)


def _hull(*points: Any) -> tuple[Any, Any]:
    """The smallest and the largest of the points, elementwise, without those that are nan."""
    xp = namespace(points[0])
    stacked = xp.stack(xp.broadcast_arrays(*(xp.asarray(point, float) for point in points)))
    # As starting points of a search they carry no gradient: see `place`.
    return xp.nanmin(stacked, axis=0), xp.nanmax(stacked, axis=0)


@_compiled_if_large
def posterior_integral(prior: ScalePrior, likelihood: ScaleLikelihood, *, nodes: int) -> Integral:
    """Prior times likelihood, integrated over the logarithm of the readout variance."""
    xp = namespace(prior, likelihood)
    near = _hull(xp.asarray(prior.log_middle, float), likelihood.log_peak)
    return integrate(lambda t: _log_joint(prior, likelihood, t), near, nodes, prior.log_bounds, prior.log_cuts)


def _mode(integral: Integral) -> Any:
    xp = namespace(integral.points)
    best = xp.asarray(xp.argmax(integral.log_terms, axis=0))
    return xp.take_along_axis(integral.points, best[None], axis=0)[0]


@_compiled_if_large
def _log_expected_gaussian(
    prior: ScalePrior,
    likelihood: ScaleLikelihood,
    posterior: Integral,
    count: Any,
    quad: Any,
    *,
    nodes: int,
) -> Any:
    xp = namespace(quad)
    shape = jnp.broadcast_shapes(count.shape, quad.shape, posterior.log_value.shape)
    near = _hull(xp.broadcast_to(_mode(posterior), shape), gaussian_log_peak(count, quad))

    def log_density(t):
        return _flat_log_joint(prior, likelihood, t) + gaussian_log_factor(t, count, quad)

    return integrate(log_density, near, nodes, prior.log_bounds, prior.log_cuts).log_value - posterior.log_value


def _flat_log_joint(prior: ScalePrior, likelihood: ScaleLikelihood, t: Any) -> Any:
    """`_log_joint` at points with any number of leading axes before those of the likelihood."""
    batch = t.ndim - len(likelihood.batch_shape)
    flat = t.reshape((-1, *t.shape[batch:]))
    return _log_joint(prior, likelihood, flat).reshape(t.shape)


@_compiled_if_large
def _log_tails(prior: ScalePrior, likelihood: ScaleLikelihood, t: Any, *, nodes: int) -> tuple[Any, Any]:
    xp = namespace(t)
    lower, upper = prior.log_bounds
    batch = jnp.broadcast_shapes(jnp.shape(prior.log_middle), likelihood.batch_shape)
    t = xp.broadcast_to(t, jnp.broadcast_shapes(t.shape, batch))
    near = _hull(t, prior.log_middle, likelihood.log_peak)

    def log_density(points):
        return _flat_log_joint(prior, likelihood, points)

    log_below = integrate(log_density, near, nodes, Bounds(lower, t), prior.log_cuts).log_value
    log_above = integrate(log_density, near, nodes, Bounds(t, upper), prior.log_cuts).log_value
    # The whole is finite: a part that seems infinite is one whose slope is too steep to be resolved.
    nothing_below = xp.isinf(log_below) if lower is None else xp.isinf(log_below) | (t <= lower)
    nothing_above = xp.isinf(log_above) if upper is None else xp.isinf(log_above) | (t >= upper)
    return xp.where(nothing_below, -xp.inf, log_below), xp.where(nothing_above, -xp.inf, log_above)


@_compiled_if_large
def _log_quantile(prior: ScalePrior, likelihood: ScaleLikelihood, posterior: Integral, p: Any, *, nodes: int) -> Any:
    xp = namespace(p)
    shape = jnp.broadcast_shapes(p.shape, posterior.log_value.shape)

    def value_and_slope(t):
        log_below, log_above = _log_tails(prior, likelihood, t, nodes=nodes)
        log_total = xp.logaddexp(log_below, log_above)
        log_slope = _flat_log_joint(prior, likelihood, t) + log_total - log_below - log_above
        return log_below - log_above - (xp.log(p) - xp.log1p(-p)), xp.exp(log_slope)

    first, last, mode = (
        xp.broadcast_to(end, shape) for end in (posterior.points[0], posterior.points[-1], _mode(posterior))
    )
    return increasing_root(value_and_slope, first, last, mode)


@_compiled_if_large
def _mean_and_var(
    prior: ScalePrior, likelihood: ScaleLikelihood, posterior: Integral, *, nodes: int
) -> tuple[Any, Any]:
    # The bulk of beta^2 p(beta) can lie far out in the tail of p: the moments have grids of their own.
    xp = namespace(posterior.points)
    powers = xp.asarray([1.0, 2.0], float).reshape((2,) + (1,) * posterior.log_value.ndim)
    mode = xp.broadcast_to(_mode(posterior), (2, *posterior.log_value.shape))
    tilted = integrate(
        lambda t: powers * t + _flat_log_joint(prior, likelihood, t),
        (mode, mode),
        nodes,
        prior.log_bounds,
        prior.log_cuts,
    )
    log_mean = tilted.log_value[0] - posterior.log_value
    spread = (1 - xp.exp(log_mean - tilted.points[:, 1])) ** 2
    weights = xp.exp(tilted.log_terms[:, 1] - posterior.log_value)
    return xp.exp(log_mean), xp.sum(xp.where(weights > 0, weights * spread, 0.0), axis=0)


@_compiled_if_large
def _refined(prior: ScalePrior, likelihood: ScaleLikelihood, posterior: Integral, *, nodes: int) -> tuple[Any, Any]:
    """The points and log terms of the same integral on another number of nodes."""
    return posterior.terms(lambda t: _log_joint(prior, likelihood, t), nodes)


@_compiled_if_large
def _draw_log(prior: ScalePrior, likelihood: ScaleLikelihood, posterior: Integral, uniform: Any, *, nodes: int) -> Any:
    xp = namespace(uniform)
    points, log_terms = _refined(prior, likelihood, posterior, nodes=nodes)
    terms = xp.exp(log_terms - posterior.log_value)
    below = xp.cumsum(terms, axis=0) - 0.5 * terms
    columns = int(np.prod(posterior.log_value.shape))
    tables = [table.reshape((-1, columns)) for table in (uniform, below, points)]
    draws = xp.stack([xp.interp(*(table[:, i] for table in tables)) for i in range(columns)], axis=1)
    return draws.reshape(uniform.shape)
