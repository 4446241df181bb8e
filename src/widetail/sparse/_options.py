"""How a sparse model is trained, in one object."""

import dataclasses
import numbers
from typing import Any

from widetail.checks import check_count
from widetail.files import savable
from widetail.sparse._memory import KEPT_ROWS
from widetail.sparse.likelihoods import Bernoulli, Categorical, Likelihood

SCALES = ("bound", "held_out", "given")
OPTIMISERS = ("natural", "stochastic", "adam")
PRECISIONS = ("auto", "float32", "float64")
AXES_OF_SEQUENCES = 3  # rows, times, features


@savable("sparse.TrainingOptions", renamed={"open_share": "residual_share"})
@dataclasses.dataclass(frozen=True)
class TrainingOptions:
    """Everything about training that is not the model itself.

    Attributes:
        selection: how inducing inputs are chosen: "greedy", "kmeans" or "balanced" (`choose_inducing` says how), or
            "auto": "kmeans" for images with an axis of channels, "greedy" for anything else.
        scale: what q(scale) follows: "bound", the evidence lower bound; "held_out", the log score of held-out rows for
            its centre and the bound for its width; "given", the value of a `PointMass` (other priors follow the bound);
            or a number, at which its centre is held (one over the expectation of one over the scale).
        residual_share: how much of the residual variance $k_{xx} - a_x^\\top a_x$, which the inducing inputs do not
            explain, is part of the model, from 0 to 1;
            "held_out" keeps it unless the log score of held-out rows is clearly better without; "auto" is "held_out"
            for classes and 1 for anything else.
        precision: of the features: "float32", "float64", or "auto" for single precision where there are many.
        max_iterations: of each stage of natural gradients.
        tolerance: training ends when an iteration gains less than this, in nats per row; None as `sparse.train` says.
        learn_likelihood: whether the likelihood's own parameters are learned.
        early_stopping: whether to keep the iterate with the best log score of held-out rows. Rows that are held out for
            `scale` and `residual_share` only are trained on in the end.
        validation_fraction: share of rows that are held out, wherever any are; with fewer than 100 of them the scale
            follows the bound, and all of the residual variance is kept.
        patience: iterations or epochs without a better score after which early stopping ends training.
        optimiser: of the first fit: "natural", natural gradients of all rows on cached features; "stochastic", the same
            of minibatches after a start on a part of the rows, for features in a file; "adam", Adam for everything,
            through the kernel, without choices by held-out rows.
        train_inputs, train_kernel: whether inducing inputs and kernel hyperparameters move with the bound, by Adam
            (with natural gradients before and after, unless the optimiser is "adam").
        epochs, batch_size: of "stochastic" and "adam".
        learning_rate: of Adam.
        kept_rows: how many rows are remembered for later updates, where their likelihood is not Gaussian. When there
            are more, near ones of one class or count become one.
    """

    selection: Any = "auto"
    scale: Any = "bound"
    residual_share: Any = "auto"
    precision: Any = "auto"
    max_iterations: int = 40
    tolerance: float | None = None
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
            check_count(name, getattr(self, name))
        check_count("kept_rows", self.kept_rows, least=0)
        if self.tolerance is not None and not float(self.tolerance) >= 0:
            raise ValueError(f"tolerance must be None or nats per row, 0 or more; got {self.tolerance!r}.")
        if not 0 < self.validation_fraction < 1:
            raise ValueError(f"validation_fraction must lie between 0 and 1; got {self.validation_fraction!r}.")
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision must be 'auto', 'float32' or 'float64'; got {self.precision!r}.")
        is_number = isinstance(self.scale, numbers.Real) and 0 < float(self.scale) < float("inf")
        if self.scale not in SCALES and not is_number:
            raise ValueError(f"scale must be 'bound', 'held_out', 'given' or a positive number; got {self.scale!r}.")
        if self.optimiser not in OPTIMISERS:
            raise ValueError(f"optimiser must be 'natural', 'stochastic' or 'adam'; got {self.optimiser!r}.")
        if self.optimiser == "adam" and self.scale not in ("bound", "given"):
            raise ValueError(f"scale must be 'bound' or 'given' with optimiser 'adam'; got {self.scale!r}.")
        is_share = isinstance(self.residual_share, numbers.Real) and 0 <= float(self.residual_share) <= 1
        if self.residual_share not in ("auto", "held_out") and not is_share:
            raise ValueError(
                f"residual_share must be 'auto', 'held_out' or a number from 0 to 1; got {self.residual_share!r}."
            )

    def without_auto(self, likelihood: Likelihood, axes: int) -> "TrainingOptions":
        """With what "auto" stands for, for a likelihood and inputs of so many axes."""
        found = self
        if self.selection == "auto":
            found = dataclasses.replace(found, selection="kmeans" if axes > AXES_OF_SEQUENCES else "greedy")
        if self.residual_share == "auto":
            is_for_classes = isinstance(likelihood, (Bernoulli, Categorical))
            found = dataclasses.replace(found, residual_share="held_out" if is_for_classes else 1.0)
        return found

    @property
    def first_share(self) -> float:
        """Share of the residual variance until held-out rows have been asked."""
        return 1.0 if isinstance(self.residual_share, str) else float(self.residual_share)
