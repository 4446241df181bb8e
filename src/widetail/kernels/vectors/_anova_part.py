"""One part of a sum over features, pairs of features, and so on."""

from collections.abc import Sequence

import numpy as np

from widetail.kernels.vectors._anova import Anova
from widetail.kernels.vectors._anova_by_hand import group_distances


def anova_part(kernel: Anova, features: Sequence[int], x1: np.ndarray, x2: np.ndarray) -> np.ndarray:
    """The summand of these features together, shape (n1, n2): the covariance of their part of the function.

    Args:
        kernel: a sum over features.
        features: which of them, one or several, all different; of encoded tables which groups.
        x1, x2: inputs, rows first.

    Example:
        >>> import numpy as np
        >>> from widetail.kernels import Anova, anova_part
        >>> x = np.array([[0.0, 0.0], [0.0, 3.0]])
        >>> anova_part(Anova(order=1), [1], x, x).round(3)
        array([[1.   , 0.011],
               [0.011, 1.   ]])
    """
    number = x1.shape[1] if kernel.places is None else max(kernel.places) + 1
    chosen = sorted(set(features))
    if not chosen or len(chosen) != len(features) or not 0 <= chosen[0] <= chosen[-1] < number:
        raise ValueError(f"features must be different numbers from 0 to {number - 1}, one or several; got {features}.")
    if kernel.order is not None and len(chosen) > kernel.order:
        raise ValueError(f"features: of {kernel!r} at most {kernel.order} act together; got {features}.")
    lengths, parts = (np.broadcast_to(np.asarray(v, float), (number,)) for v in (kernel.length_scale, kernel.part_var))
    if kernel.places is None:
        squares = ((x1[:, None, chosen] - x2[None][..., chosen]) / lengths[chosen]) ** 2
    else:
        distances = group_distances(x1.T, x2.T, kernel.places)
        squares = np.stack([distances[group] / lengths[group] ** 2 for group in chosen], axis=-1)
    values = np.prod(parts[chosen]) * np.exp(-0.5 * np.sum(squares, axis=-1))
    if kernel.order is None:
        return values / np.prod(1 + parts)
    return values * float(kernel.interaction_var) ** (len(chosen) - 1)
