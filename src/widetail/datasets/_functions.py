"""Functions of ten inputs that methods for few rows are compared on."""

import dataclasses
from collections.abc import Callable, Mapping

import numpy as np
import scipy.stats


@dataclasses.dataclass(frozen=True)
class BoxFunction:
    """A function on a box, from which tables with noise are drawn.

    Attributes:
        name: what it is called.
        function: values (n,) of points (n, d).
        box: lower and upper end of every input.

    Example:
        >>> from widetail.datasets import FUNCTIONS
        >>> x, y, x_test, y_test = FUNCTIONS["ackley"].draw(20, 100, noise=0.05, seed=0)
        >>> x.shape, y_test.shape
        ((20, 10), (100,))
    """

    name: str
    function: Callable[[np.ndarray], np.ndarray]
    box: tuple[tuple[float | int, float | int], ...]

    def draw(
        self, rows: int, test_rows: int, *, noise: float, seed: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """x, y, and test points of the same scrambled Sobol sequence.

        Args:
            rows: to learn from.
            test_rows: further points of the sequence.
            noise: its standard deviation, on all targets, over that of the noise-free targets of the test points.
            seed: of the sequence and the noise.
        """
        low, high = np.array(self.box, dtype=np.float64).T
        count = rows + test_rows
        power = (count - 1).bit_length()
        points = scipy.stats.qmc.Sobol(len(low), rng=seed).random_base2(power)[:count]
        x = low + points * (high - low)
        y = self.function(x)
        y = y + noise * np.std(y[rows:]) * np.random.default_rng(seed).normal(size=count)
        return x[:rows], y[:rows], x[rows:], y[rows:]


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


_WING = (
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

FUNCTIONS: Mapping[str, BoxFunction] = {
    "wing": BoxFunction("Wing weight", wing_weight, _WING),
    "ackley": BoxFunction("Ackley", ackley, ((-5, 10),) * 10),
    "dixon_price": BoxFunction("Dixon-Price", dixon_price, ((-10, 10),) * 10),
    "griewank": BoxFunction("Griewank", griewank, ((-600, 600),) * 10),
    "rosenbrock": BoxFunction("Rosenbrock", rosenbrock, ((-5, 10),) * 10),
}
