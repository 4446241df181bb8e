"""Cases on which intervals from few rows are compared, and what was published of them.

The published numbers are medians of 20 draws, of arXiv 2606.01427: GP+, a Gaussian process with one length per input
and 16 starts, and TabPFN v2.5.
"""

import dataclasses

import numpy as np

from widetail.datasets import FUNCTIONS

TEST_POINTS = 5000


@dataclasses.dataclass(frozen=True)
class Case:
    """A row of the published table: the scores are 95 % interval scores over the standard deviation of y."""

    name: str
    function: str
    rows: int
    noise: float
    gp: float
    tabpfn: float

    def data(self, draw: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """x, y, and 5,000 test points of the same scrambled Sobol sequence; noise on all targets."""
        return FUNCTIONS[self.function].draw(self.rows, TEST_POINTS, noise=self.noise, seed=draw)

    def __str__(self) -> str:
        return f"{self.name}, {self.rows} rows, noise {self.noise:g}"


CASES = [
    Case("wing weight", "wing", 100, 0.005, 0.073, 0.167),
    Case("wing weight", "wing", 100, 0.05, 0.331, 0.327),
    Case("wing weight", "wing", 400, 0.005, 0.033, 0.082),
    Case("wing weight", "wing", 400, 0.05, 0.257, 0.269),
    Case("Ackley", "ackley", 100, 0.005, 1.569, 1.887),
    Case("Ackley", "ackley", 400, 0.005, 1.073, 0.993),
    Case("Dixon-Price", "dixon_price", 100, 0.005, 2.037, 2.010),
    Case("Dixon-Price", "dixon_price", 400, 0.005, 1.287, 0.840),
    Case("Griewank", "griewank", 100, 0.005, 0.111, 2.460),
    Case("Griewank", "griewank", 400, 0.005, 0.033, 0.469),
    Case("Rosenbrock", "rosenbrock", 100, 0.005, 2.206, 2.084),
    Case("Rosenbrock", "rosenbrock", 400, 0.005, 1.588, 0.500),
]
