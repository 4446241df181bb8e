"""What kernels of vectors have in common."""

from typing import ClassVar

import numpy as np

from widetail.kernels._base import Kernel


class VectorKernel(Kernel):
    """A kernel of vectors of features; not for direct use."""

    per_feature: ClassVar[tuple[str, ...]] = ("length_scale",)
    """Parameters that may be vectors, with an entry for each feature."""

    def check_shape(self, name: str, input_shape: tuple[int, ...]) -> None:
        """Vectors, with as many features as each of the parameters that is itself a vector."""
        if len(input_shape) != 1:
            shape = ", ".join(map(str, input_shape))
            raise ValueError(
                f"{name} must hold vectors, shape (n, d), for {type(self).__name__}; got shape (n, {shape}). "
                f"Flatten it, {name}.reshape(len({name}), -1)."
            )
        for parameter in self.per_feature:
            shape = np.shape(getattr(self, parameter))
            if len(shape) == 1 and shape[0] != input_shape[0]:
                raise ValueError(f"{name} has {input_shape[0]} features, but {parameter} has {shape[0]} entries.")

    def numbers_per_pair(self, input_shape: tuple[int, ...]) -> int:
        return 1
