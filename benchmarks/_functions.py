"""Functions of ten inputs on which intervals from few rows are compared, and what was published of them.

The published numbers are medians of 20 draws, of arXiv 2606.01427: GP+, a Gaussian process with one length per input
and 16 starts, and TabPFN v2.5.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import scipy.stats

TEST_POINTS = 5000


def wing_weight(x: np.ndarray) -> np.ndarray:
    """Weight of the wing of a light aircraft."""
    area, fuel, aspect, sweep, pressure, taper, thickness, load, gross, paint = x.T
    cosine = np.cos(np.deg2rad(sweep))
    shape = (aspect / cosine**2) ** 0.6 * taper**0.04 * (100 * thickness / cosine) ** -0.3
    return 0.036 * area**0.758 * fuel**0.0035 * shape * pressure**0.006 * (load * gross) ** 0.49 + area * paint


def ackley(x: np.ndarray) -> np.ndarray:
    """A wide bowl with ripples."""
    bowl = -20 * np.exp(-0.2 * np.sqrt(np.mean(x**2, axis=1)))
    return bowl - np.exp(np.mean(np.cos(2 * np.pi * x), axis=1)) + 20 + np.e


def dixon_price(x: np.ndarray) -> np.ndarray:
    """Squares of differences of neighbouring inputs, one of them squared, with growing weights."""
    weights = np.arange(2, x.shape[1] + 1)
    return (x[:, 0] - 1) ** 2 + np.sum(weights * (2 * x[:, 1:] ** 2 - x[:, :-1]) ** 2, axis=1)


def griewank(x: np.ndarray) -> np.ndarray:
    """A bowl, with ripples that are small beside it."""
    return np.sum(x**2, axis=1) / 4000 - np.prod(np.cos(x / np.sqrt(np.arange(1, x.shape[1] + 1))), axis=1) + 1


def rosenbrock(x: np.ndarray) -> np.ndarray:
    """A curved valley."""
    return np.sum(100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2, axis=1)


WING = (
    (150, 200),
    (220, 300),
    (6, 10),
    (-10, 10),
    (16, 45),
    (0.5, 1),
    (0.08, 0.18),
    (2.5, 6),
    (1700, 2500),
    (0.025, 0.08),
)


@dataclasses.dataclass(frozen=True)
class Case:
    """A row of the published table: the scores are 95 % interval scores over the standard deviation of y."""

    name: str
    function: Callable[[np.ndarray], np.ndarray]
    box: tuple[tuple[float, float], ...]
    rows: int
    noise: float
    gp: float
    tabpfn: float

    def data(self, draw: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """x, y, and 5,000 test points of the same scrambled Sobol sequence; noise on all targets."""
        low, high = np.array(self.box, dtype=np.float64).T
        count = self.rows + TEST_POINTS
        power = (count - 1).bit_length()
        points = scipy.stats.qmc.Sobol(len(low), rng=draw).random_base2(power)[:count]
        x = low + points * (high - low)
        y = self.function(x)
        spread = self.noise * np.std(y[self.rows :])
        y = y + spread * np.random.default_rng(draw).normal(size=count)
        return x[: self.rows], y[: self.rows], x[self.rows :], y[self.rows :]

    def __str__(self) -> str:
        return f"{self.name}, {self.rows} rows, noise {self.noise:g}"


CASES = [
    Case("wing weight", wing_weight, WING, 100, 0.005, 0.073, 0.167),
    Case("wing weight", wing_weight, WING, 100, 0.05, 0.331, 0.327),
    Case("wing weight", wing_weight, WING, 400, 0.005, 0.033, 0.082),
    Case("wing weight", wing_weight, WING, 400, 0.05, 0.257, 0.269),
    Case("Ackley", ackley, ((-5, 10),) * 10, 100, 0.005, 1.569, 1.887),
    Case("Ackley", ackley, ((-5, 10),) * 10, 400, 0.005, 1.073, 0.993),
    Case("Dixon-Price", dixon_price, ((-10, 10),) * 10, 100, 0.005, 2.037, 2.010),
    Case("Dixon-Price", dixon_price, ((-10, 10),) * 10, 400, 0.005, 1.287, 0.840),
    Case("Griewank", griewank, ((-600, 600),) * 10, 100, 0.005, 0.111, 2.460),
    Case("Griewank", griewank, ((-600, 600),) * 10, 400, 0.005, 0.033, 0.469),
    Case("Rosenbrock", rosenbrock, ((-5, 10),) * 10, 100, 0.005, 2.206, 2.084),
    Case("Rosenbrock", rosenbrock, ((-5, 10),) * 10, 400, 0.005, 1.588, 0.500),
]
