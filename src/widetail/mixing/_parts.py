"""Posteriors under a prior of several parts: each part has a posterior, and the data say which part it is."""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, PRNGKeyArray

from widetail.mixing._posterior import ScaleDiagnostics, ScalePosterior, where_they_exist
from widetail.numerics import increasing_root, namespace
from widetail.priors import Values


class TwoParts(ScalePosterior):
    """The posterior is one of two, `first` and `second`, with the logs of these probabilities."""

    first: ScalePosterior
    second: ScalePosterior
    log_first: Any
    log_second: Any
    log_evidence: Any
    diagnostics: ScaleDiagnostics

    @classmethod
    def of(cls, first: ScalePosterior, second: ScalePosterior, log_first: Values, log_second: Values) -> "TwoParts":
        """From the posterior of each part of the prior and the log of its prior probability."""
        log_first, log_second = log_first + first.log_evidence, log_second + second.log_evidence
        evidence = namespace(log_first, log_second).logaddexp(log_first, log_second)
        kinds: list[ScaleDiagnostics] = [first.diagnostics, second.diagnostics]
        errors = [kind.error for kind in kinds if kind.error is not None]
        method = "closed" if all(kind.method == "closed" for kind in kinds) else "quadrature"
        diagnostics = ScaleDiagnostics(method, max(kind.nodes for kind in kinds), sum(errors) if errors else None)
        return cls(
            first=first,
            second=second,
            log_first=log_first - evidence,
            log_second=log_second - evidence,
            log_evidence=evidence,
            diagnostics=diagnostics,
        )

    @property
    def batch_shape(self) -> tuple[int, ...]:
        return jnp.broadcast_shapes(self.first.batch_shape, self.second.batch_shape, jnp.shape(self.log_first))

    @property
    def tail_index(self) -> Values:
        return namespace(self).minimum(self.first.tail_index, self.second.tail_index)

    def _mean_of(self, first: Values, second: Values) -> Values:
        xp = namespace(self, first, second)
        return xp.exp(self.log_first) * first + xp.exp(self.log_second) * second

    def log_prob_of_log(self, log_scale: Values) -> Values:
        first = self.log_first + self.first.log_prob_of_log(log_scale)
        second = self.log_second + self.second.log_prob_of_log(log_scale)
        return namespace(self, log_scale).logaddexp(first, second)

    def below_log(self, log_scale: Values) -> Values:
        return self._mean_of(self.first.below_log(log_scale), self.second.below_log(log_scale))

    def log_quantile(self, p: Values) -> Values:
        xp = namespace(self, p)
        ends = self.first.log_quantile(p), self.second.log_quantile(p)
        lower, upper = xp.minimum(*ends), xp.maximum(*ends)

        def value_and_slope(log_scale: Values) -> tuple[Values, Values]:
            return self.below_log(log_scale) - p, xp.exp(self.log_prob_of_log(log_scale))

        return increasing_root(value_and_slope, lower, upper)

    def draw_log(self, key: PRNGKeyArray | Array, shape: tuple[int, ...]) -> Values:
        which, one, other = jax.random.split(key, 3)
        is_second = jnp.log(jax.random.uniform(which, shape + self.batch_shape)) < self.log_second
        return jnp.where(is_second, self.second.draw_log(other, shape), self.first.draw_log(one, shape))

    def mean_and_var(self) -> tuple[Values, Values]:
        xp = namespace(self)
        (one, one_var), (other, other_var) = self.first.mean_and_var(), self.second.mean_and_var()
        mean = self._mean_of(one, other)
        centre = xp.where(self.tail_index > 1, mean, 0.0)
        squares = ((xp.where(self.tail_index > 1, part, 0.0) - centre) ** 2 for part in (one, other))
        one_var, other_var = (xp.where(self.tail_index > 2, part, 0.0) for part in (one_var, other_var))
        var = self._mean_of(one_var, other_var) + self._mean_of(*squares)
        return where_they_exist(mean, var, self.tail_index)

    def expected_precision(self) -> Values:
        return self._mean_of(self.first.expected_precision(), self.second.expected_precision())

    def log_nodes(self, refine: int = 1) -> tuple[Values, Values]:
        xp = namespace(self)
        parts = zip((self.log_first, self.log_second), (self.first, self.second), strict=True)
        pairs = [
            (points, log_part + chances) for log_part, part in parts for points, chances in [part.log_nodes(refine)]
        ]
        shapes = [points.shape[:1] + self.batch_shape for points, _ in pairs]
        points, chances = (
            xp.concatenate([xp.broadcast_to(pair[k], shape) for pair, shape in zip(pairs, shapes, strict=True)])
            for k in (0, 1)
        )
        return points, chances

    def log_expected_gaussian(self, count: ArrayLike, quad: Values) -> Values:
        first = self.log_first + self.first.log_expected_gaussian(count, quad)
        second = self.log_second + self.second.log_expected_gaussian(count, quad)
        return namespace(self, quad).logaddexp(first, second)
