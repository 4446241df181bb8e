"""Priors of hyperparameters, by the name of their field: normal laws of their logarithms."""

from collections.abc import Mapping

import numpy as np

from widetail.learning._parameters import Parameters

# Median and standard deviation of the logarithm, for standardised inputs and targets. Lengths of a few standard
# deviations: functions that bend once or twice over the data. Parts of single features are small, so that a function
# of few features at a time is simpler than one of all. Noise is anything from nothing to all.
HYPERPRIORS: dict[str, tuple[float, float]] = {
    "length_scale": (3.0, 1.5),
    "part_var": (0.15, 2.5),
    "interaction_var": (1.0, 2.0),
    "power": (1.8, 0.3),
    "alpha": (1.0, 1.5),
    "weight_var": (0.5, 2.0),
    "bias_var": (0.2, 2.0),
    "query_key_var": (1.0, 1.5),
    "variances": (0.5, 2.0),
    "noise": (2e-3, 3.0),
}


class Hyperpriors:
    """The joint prior of the learned numbers of a process, as a density of their logarithms.

    Args:
        parameters: which numbers are learned.
        given: (median, standard deviation of the logarithm) by field, instead of those of `HYPERPRIORS`.
    """

    def __init__(self, parameters: Parameters, given: Mapping[str, tuple[float, float]] | None = None):
        table = HYPERPRIORS | dict(given or {})
        unknown = set(given or {}) - set(HYPERPRIORS)
        if unknown:
            raise ValueError(f"hyperpriors: there are no fields {sorted(unknown)}; known are {sorted(HYPERPRIORS)}.")
        for name, (median, spread) in table.items():
            if not (median > 0 and spread > 0):
                raise ValueError(f"hyperpriors[{name!r}] must be (median, spread), both positive; got {table[name]!r}.")
        fields = [slot.field if slot.part == "kernel" else slot.part for slot in parameters.slots]
        sizes = [slot.size for slot in parameters.slots]
        self.mean = np.repeat([np.log(table[field][0]) for field in fields], sizes)
        self.spread = np.repeat([table[field][1] for field in fields], sizes)

    def log_prob_and_gradient(self, vector: np.ndarray) -> tuple[float, np.ndarray]:
        """Log density of the logarithms, and its derivatives."""
        z = (vector - self.mean) / self.spread
        normaliser = np.sum(np.log(self.spread)) + 0.5 * len(z) * np.log(2 * np.pi)
        return float(-0.5 * np.sum(z**2) - normaliser), -z / self.spread
