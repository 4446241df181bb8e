"""The accuracy of integrals: options, and what was reached."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """How a kernel was computed, and how well.

    Attributes:
        pairs: whether pairs of inputs are meant, or each input with itself.
        method: "closed forms", "Hermite series" or "quasi-Monte Carlo".
        error: largest estimated error of the kernel: its distance from that with twice the polynomials for Hermite
            series, a standard error over scrambled repetitions for quasi-Monte Carlo; with an allowance for rounding.
        size: largest value of the kernel.
    """

    pairs: bool
    method: str
    error: float
    size: float


@dataclasses.dataclass(frozen=True)
class Options:
    """Accuracy of integrals without a closed form.

    Attributes:
        order: Hermite polynomials for functions of one variable.
        degree: of Hermite polynomials for functions of two variables: those below it are used.
        samples: points of quasi-Monte Carlo.
        times: so many times the polynomials, also where an activation asks for more than `order` by itself.
    """

    order: int = 64
    degree: int = 24
    samples: int = 8192
    times: int = 1

    def finer(self) -> "Options":
        """Twice the polynomials."""
        return dataclasses.replace(self, times=2 * self.times)
