"""How the scale is inferred."""

import dataclasses
from typing import Any, Literal

from widetail.mixing import Method

ScaleSharing = Literal["shared", "per_output"]


@dataclasses.dataclass(frozen=True)
class Inference:
    """Choices about the readout variance that a posterior carries along.

    Attributes:
        method: "auto", "closed", "quadrature" or "importance".
        sharing: one readout variance for all outputs, or one for each.
        options: further arguments of `mixing.scale_posterior`.
    """

    method: Method = "auto"
    sharing: ScaleSharing = "shared"
    options: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def per_output(self) -> bool:
        """Whether every output has a readout variance of its own."""
        return self.sharing == "per_output"
