r"""The logarithm of the noise variance as a function of the input: what is believed of it, given the misfits.

Row i has the noise variance $\beta s^2 u_i e^{g_i}$ with $g \sim N(0, K)$. Given the misfits
$e_i = E[|y_i - f_i|^2] / (\beta s^2 u_i)$, each of $c_i$ observations of D outputs adds $-\frac D2 g_i - \frac12 e_i
e^{-g_i}$, a concave function, to the log density of g. The best normal law $N(m, S)$ is therefore unique; it has the
form $m = K (\lambda - \frac D2 c)$, $S = (K^{-1} + \mathrm{diag}\,\lambda)^{-1}$ with $\lambda_i = \frac12 c_i e_i
e^{-m_i + S_{ii}/2}$: 2n numbers, found by Newton steps.
"""

import dataclasses

import numpy as np

from widetail.numerics import CholeskyFactor

LEAST_MISFIT = 1e-10  # per output: noise below a ten-billionth of the model's variance is none
MOST_STEPS = 60
HALVINGS = 12
GAIN = 1e-8  # of the bound, in nats per row, below which a step is the last


@dataclasses.dataclass(frozen=True, eq=False)
class FieldLaw:
    """A normal law of the logarithm of the noise variance at the rows.

    Attributes:
        misfit: what it was made from, shape (n,).
        pull: K^{-1} m, shape (n,).
        precision: what each row adds to the precision of its own logarithm, shape (n,).
        mean, variance: of the logarithm at each row, shape (n,).
        factor: of I + R K R, R the roots of `precision` on a diagonal.
        bound: what it adds to the log evidence given `weights`, in nats.
        objective: what the best law makes largest for these misfits, in nats.
    """

    misfit: np.ndarray
    pull: np.ndarray
    precision: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    factor: CholeskyFactor
    bound: float
    objective: float

    @property
    def weights(self) -> np.ndarray:
        """One over the mean of the precision, in units of the noise variance, shape (n,)."""
        return np.exp(self.mean - 0.5 * self.variance)

    @classmethod
    def at(
        cls,
        matrix: np.ndarray,
        misfit: np.ndarray,
        halves: np.ndarray,
        pull: np.ndarray,
        precision: np.ndarray,
        factor: CholeskyFactor | None = None,
    ):
        """The law with these numbers, and how good it is.

        Args:
            matrix: K, shape (n, n).
            misfit: of every row, shape (n,).
            halves: half of the numbers that were observed of every row, shape (n,).
            pull, precision: of the law.
            factor: of `precision`, if it is known.
        """
        misfit = np.maximum(misfit, LEAST_MISFIT)
        factor = _factor(matrix, precision) if factor is None else factor
        mean = matrix @ pull
        # 1 - 1/(1 + k) loses what k is below rounding; there the variance is the prior's
        variance = np.clip((1 - factor.inverse_diagonal()) / precision, 0.0, np.diagonal(matrix))
        divergence = 0.5 * (factor.log_det() + pull @ mean - precision @ variance)
        bound = -0.5 * float(halves @ variance) - divergence
        with np.errstate(over="ignore"):
            fit = -halves @ mean - (halves * misfit) @ np.exp(-mean + 0.5 * variance)
        return cls(misfit, pull, precision, mean, variance, factor, float(bound), float(fit - divergence))

    @classmethod
    def of(
        cls,
        matrix: np.ndarray,
        misfit: np.ndarray,
        halves: np.ndarray,
        start: "FieldLaw | None" = None,
        steps: int = MOST_STEPS,
        gain: float = GAIN,
    ):
        """The best law for these misfits, from where another one is, or from all rows alike.

        `misfit` is per output here: the sum over the outputs divided by their number. Fewer `steps` than it takes give
        a law that is better than `start`, which is enough where misfits change with it anyway. A step that gains less
        than `gain`, in nats per row, is the last: what is left after it is of the order of its square.
        """
        misfit = np.maximum(misfit, LEAST_MISFIT)
        if start is None:
            law = cls.at(matrix, misfit, halves, np.zeros(len(misfit)), 0.5 * halves)
        else:
            law = cls.at(matrix, misfit, halves, start.pull, start.precision)
        for _ in range(steps):
            after = law._step(matrix, halves)
            gained = after.objective - law.objective
            law = after
            if gained < gain * len(misfit):
                break
        return law

    def _step(self, matrix: np.ndarray, halves: np.ndarray) -> "FieldLaw":
        """A Newton step, shortened until it is one uphill."""
        with np.errstate(over="ignore"):
            aim = halves * self.misfit * np.exp(np.minimum(-self.mean + 0.5 * self.variance, 300.0))
        aim = np.clip(aim, 1e-8 * halves, 1e8 * halves)
        root, factor = np.sqrt(aim), _factor(matrix, aim)
        pull = root * factor.solve(root * self.mean + (aim - halves) / root)
        after, share = self.at(matrix, self.misfit, halves, pull, aim, factor), 1.0
        for _ in range(HALVINGS):
            if after.objective >= self.objective:
                return after
            share /= 2
            between = self.precision ** (1 - share) * aim**share
            after = self.at(matrix, self.misfit, halves, self.pull + share * (pull - self.pull), between)
        return self

    def at_new(self, cross: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the logarithm at new inputs, shapes (m,).

        Args:
            cross: K between the new inputs and the rows, shape (m, n).
            own: K of each new input with itself, shape (m,).
        """
        solved = self.factor.solve_lower(np.sqrt(self.precision)[:, None] * cross.T)
        return cross @ self.pull, np.maximum(own - np.einsum("nm,nm->m", solved, solved), 0.0)

    def without_own(self, halves: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the logarithm at each row when one observation of it is not used, shapes (n,)."""
        site, pull = self.precision / counts, (self.precision - halves) / counts
        # the row said N(mean + (precision - halves) / precision, 1 / precision): take one share of that away
        left = np.maximum(1 / np.maximum(self.variance, 1e-300) - site, 1e-12)
        mean = self.mean - (pull / left)
        return mean, 1 / left


def _factor(matrix: np.ndarray, precision: np.ndarray) -> CholeskyFactor:
    """Of I + R K R, R the roots of the precision on a diagonal."""
    root = np.sqrt(precision)
    inner = matrix * root[:, None] * root
    inner[np.diag_indices_from(inner)] += 1.0
    return CholeskyFactor.of(inner)
