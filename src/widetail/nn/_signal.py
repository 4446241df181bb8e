"""What is known of a layer's output before any number is computed."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class Signal:
    """Shape and law of the features between two layers.

    Attributes:
        space: positions: () for vectors, (time,) for sequences, (height, width) for images.
        features: entries per position; None where they are as many as the width and that is infinite.
        multiple: how many times the width there are features (Flatten multiplies); 0 for the data, whose
            features do not grow with the width.
        width: the width of the network, None for its limit.
        is_input: the data, on its way to the first layer and to that alone.
        is_gaussian: jointly Gaussian across data points and positions, with independent, identically
            distributed entries: what an activation needs.
        is_fresh: a product with random weights of mean zero that nothing else uses, hence uncorrelated
            with every other branch: what a sum of branches needs.
        source: what it comes from, for messages.
    """

    space: tuple[int, ...]
    features: int | None
    width: int | None = None
    multiple: int = 1
    is_input: bool = False
    is_gaussian: bool = False
    is_fresh: bool = False
    source: str = "the inputs"

    @classmethod
    def of_input(cls, input_shape: tuple[int, ...], width: int | None = None) -> "Signal":
        """The data: `input_shape` without the rows, features last."""
        if not isinstance(input_shape, (tuple, list)) or not input_shape:
            raise ValueError(
                f"input_shape must be the shape of one input without the rows, (d,), (time, d) or "
                f"(height, width, channels), such as x.shape[1:]; got {input_shape!r}."
            )
        *space, features = input_shape
        return cls(tuple(space), features, width, multiple=0, is_input=True)

    @property
    def positions(self) -> int:
        """How many positions there are."""
        return math.prod(self.space)

    @property
    def feature_count(self) -> str:
        """Entries per position, in words."""
        if self.features is not None:
            return str(self.features)
        return "width" if self.multiple == 1 else f"{self.multiple} x width"

    @property
    def sizes(self) -> tuple[int, int]:
        """Features that come in and the width, in a finite network."""
        assert self.features is not None
        assert self.width is not None
        return self.features, self.width

    @property
    def kind(self) -> str:
        """What the data is called in messages."""
        names = {0: "vectors", 1: "sequences", 2: "images", 3: "volumes"}
        return names.get(len(self.space), f"arrays with {len(self.space)} axes of positions")

    def weighted(self, space: tuple[int, ...] | None = None) -> "Signal":
        """After a product with random weights."""
        return Signal(self.space if space is None else space, self.width, self.width, is_gaussian=True, is_fresh=True)

    def replace(self, **changes) -> "Signal":
        """A copy with some fields changed; no longer the input."""
        return dataclasses.replace(self, **({"is_input": False} | changes))
