"""How a sparse model is trained, in one object."""

import dataclasses
import numbers
from typing import Any

from widetail.sparse._memory import KEPT_ROWS

SCALES = ("bound", "held_out", "given")
OPTIMISERS = ("natural", "stochastic", "adam")
PRECISIONS = ("auto", "float32", "float64")


@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    """Everything about training that is not the model itself.

    Attributes:
        selection: how inducing inputs are chosen: "greedy", "kmeans" or "balanced"; see `choose_inducing`.
        scale: what q(scale) follows: "bound", the evidence lower bound; "held_out", the log score of held-out rows for
            its centre and the bound for its width; "given", the value of a `PointMass`.
        open_share: how much of the variance that inducing inputs leave open is part of the model, from 0 to 1;
            "held_out" keeps it unless the log score of held-out rows is clearly better without.
        precision: of the features: "float32", "float64", or "auto" for single precision where there are many.
        max_iterations, tolerance: of each stage of natural gradients; it ends when an iteration gains less than
            `tolerance` nats per row.
        learn_likelihood: whether the likelihood's own parameters are learned.
        early_stopping: whether to keep the iterate with the best log score of held-out rows.
        validation_fraction: share of rows that are held out, wherever any are.
        patience: iterations or epochs without a better score after which early stopping ends training.
        optimiser: "natural", "stochastic" or "adam".
        train_inputs, train_kernel: whether inducing inputs and kernel hyperparameters move with the bound, by Adam.
        epochs, batch_size: of "stochastic" and "adam".
        learning_rate: of Adam.
        kept_rows: how many rows are remembered as they are for later updates, where their likelihood is not Gaussian.
    """

    selection: Any = "greedy"
    scale: Any = "bound"
    open_share: Any = 1.0
    precision: Any = "auto"
    max_iterations: int = 40
    tolerance: float = 1e-5
    learn_likelihood: bool = True
    early_stopping: bool = False
    validation_fraction: float = 0.1
    patience: int = 5
    optimiser: Any = "natural"
    train_inputs: bool = False
    train_kernel: bool = False
    epochs: int = 10
    learning_rate: float = 0.01
    batch_size: int = 256
    kept_rows: int = KEPT_ROWS

    def __post_init__(self) -> None:
        for name in ("max_iterations", "patience", "epochs", "batch_size"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
                raise ValueError(f"{name} must be a positive integer; got {value!r}.")
        if not isinstance(self.kept_rows, numbers.Integral) or self.kept_rows < 0:
            raise ValueError(f"kept_rows must be an integer of at least 0; got {self.kept_rows!r}.")
        if not 0 < self.validation_fraction < 1:
            raise ValueError(f"validation_fraction must lie between 0 and 1; got {self.validation_fraction!r}.")
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision must be 'auto', 'float32' or 'float64'; got {self.precision!r}.")
        if self.scale not in SCALES:
            raise ValueError(f"scale must be 'bound', 'held_out' or 'given'; got {self.scale!r}.")
        if self.optimiser not in OPTIMISERS:
            raise ValueError(f"optimiser must be 'natural', 'stochastic' or 'adam'; got {self.optimiser!r}.")
        if self.optimiser == "adam" and self.scale == "held_out":
            raise ValueError("scale must be 'bound' or 'given' with optimiser 'adam'; got 'held_out'.")
        is_share = isinstance(self.open_share, numbers.Real) and 0 <= float(self.open_share) <= 1
        if self.open_share != "held_out" and not is_share:
            raise ValueError(f"open_share must be 'held_out' or a number from 0 to 1; got {self.open_share!r}.")

    @property
    def first_share(self) -> float:
        """Of the open variance, before held-out rows have their say."""
        return 1.0 if self.open_share == "held_out" else float(self.open_share)
