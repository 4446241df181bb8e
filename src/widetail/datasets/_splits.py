"""The 20 standard splits of the UCI regression benchmark."""

import numpy as np
from jaxtyping import UInt16

N_SPLITS = 20
TRAIN_FRACTION = 0.9


def standard_splits(
    n: int,
) -> tuple[UInt16[np.ndarray, "splits n_train"], UInt16[np.ndarray, "splits n_test"]]:
    """Row numbers of the training and test parts of a table of `n` rows.

    The rule of Hernández-Lobato and Adams (2015): permutations drawn in turn from one legacy generator with
    seed 1, of which the first `round(0.9 n)` entries are the training part. All eight tables of the benchmark
    ship with the index files that this rule gives.
    """
    if not 2 <= n <= np.iinfo(np.uint16).max:
        raise ValueError(f"n must be 2 to {np.iinfo(np.uint16).max} rows, got {n}.")
    # The legacy generator is part of the definition: the published index files came out of it.
    generator = np.random.RandomState(1)
    orders = [generator.choice(n, n, replace=False) for _ in range(N_SPLITS)]
    permutations = np.stack(orders).astype(np.uint16)
    n_train = round(TRAIN_FRACTION * n)
    return permutations[:, :n_train], permutations[:, n_train:]
