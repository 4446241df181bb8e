"""The interface of posteriors of the readout variance."""

import abc
from typing import Any

import equinox as eqx
from jaxtyping import ArrayLike

from widetail.numerics import double_precision, namespace
from widetail.priors import Numbers, ScaleDistribution, Values


class ScaleDiagnostics(eqx.Module):
    """How the posterior was computed and how well.

    Attributes:
        method: "closed", "quadrature" or "importance".
        nodes: number of nodes (for each mode of the prior) or of draws; 0 for a closed form.
        error: quadrature: the change of the log evidence when every second node is left out (the error itself is
            far smaller, about its square), and what is missing of the prior's own mass between its cuts.
        ess: importance sampling: effective sample size, of at most `nodes`.
        pareto_k: importance sampling: shape of the tail of the weights; above 0.7 the result is not reliable.
    """

    method: str = eqx.field(static=True)
    nodes: int = eqx.field(static=True)
    error: Any = None
    ess: Any = None
    pareto_k: Any = None


class ScalePosterior(ScaleDistribution):
    r"""Law of the readout variance $\beta$ given data, or of the prior itself when there are none.

    With one readout variance per output, everything has a trailing axis of D outputs.
    """

    log_evidence: eqx.AbstractVar[Any]
    diagnostics: eqx.AbstractVar[ScaleDiagnostics]

    @double_precision
    def quantile(self, p: Numbers) -> Values:
        """The value below which the readout variance lies with probability `p`.

        `p` of any shape; with one readout variance per output the result has a trailing axis of outputs.
        """
        xp = namespace(self, p)
        p = xp.asarray(p, float)
        return xp.exp(self.log_quantile(p.reshape(p.shape + (1,) * len(self.batch_shape))))

    @property
    @double_precision
    def mean(self) -> Values:
        """Expectation; `inf` where it is infinite."""
        return self.mean_and_var()[0]

    @property
    @double_precision
    def var(self) -> Values:
        """Variance; `inf` where it is infinite, `nan` where there is not even a mean."""
        return self.mean_and_var()[1]

    @property
    @double_precision
    def std(self) -> Values:
        """Standard deviation, as far as `var` exists."""
        var = self.mean_and_var()[1]
        return namespace(var).sqrt(var)

    @property
    @double_precision
    def mean_precision(self) -> Values:
        """Expectation of one over the readout variance."""
        return self.expected_precision()

    @double_precision
    def nodes(self, refine: int = 1) -> tuple[Values, Values]:
        """Readout variances and the logs of their probabilities: the law as a finite mixture.

        The nodes of a quadrature suit the bulk of a predictive distribution to about twelve digits; for
        probabilities of 1e-12 and less ask for `refine` times as many.
        """
        log_scales, log_weights = self.log_nodes(refine)
        xp = namespace(log_scales)
        return xp.exp(xp.clip(log_scales, -708.0, 708.0)), log_weights

    @property
    @abc.abstractmethod
    def batch_shape(self) -> tuple[int, ...]:
        """`()`, or `(D,)` with one readout variance per output."""

    @abc.abstractmethod
    def mean_and_var(self) -> tuple[Values, Values]:
        """What `mean` and `var` return."""

    def expected_precision(self) -> Values:
        """What `mean_precision` returns."""
        log_scales, log_weights = self.log_nodes()
        xp = namespace(log_scales)
        return xp.sum(xp.exp(log_weights - xp.clip(log_scales, -708.0, 708.0)), axis=0)

    @abc.abstractmethod
    def log_nodes(self, refine: int = 1) -> tuple[Values, Values]:
        """Logs of the nodes and of their probabilities, both of shape (nodes, *batch)."""

    @abc.abstractmethod
    def log_expected_gaussian(self, count: ArrayLike, quad: Values) -> Values:
        r"""$\log \mathbb E[\beta^{-c/2} e^{-q/(2\beta)}]$ for c = `count`, q = `quad`.

        This is the density of c new numbers of squared length q, up to $(2\pi)^{-c/2}$. It is computed anew
        for every q, because the readout variances that matter for an outlier are not those of the posterior.
        """


def where_they_exist(mean: Values, var: Values, tail_index: Values) -> tuple[Values, Values]:
    """Mean and variance, replaced by `inf` and `nan` where the tail is too heavy for them."""
    xp = namespace(mean, var, tail_index)
    mean = xp.where(tail_index > 1, mean, xp.inf)
    return mean[()], xp.where(tail_index > 2, var, xp.where(tail_index > 1, xp.inf, xp.nan))[()]
