"""What the estimators made of finite networks share: inputs, members, training."""

import numbers
from pathlib import Path
from typing import Any, ClassVar, get_args

import jax
import numpy as np
from sklearn.utils.validation import check_is_fitted

from widetail import nn
from widetail.checks import check_count
from widetail.estimators._files import SavedEstimator
from widetail.estimators._inputs import StructuredInputs
from widetail.files.checkpoints import with_leaves
from widetail.finite import EnsembleFit, Loss, ScaledNetwork, draw_scales, fit_ensemble, member_outputs, split_key
from widetail.nn import Layer
from widetail.priors import InverseGamma, ScalePrior
from widetail.process import Readout

FEWEST_ROWS_TO_HOLD_OUT = 5


def default_network(input_shape: tuple[int, ...]) -> Layer:
    """For vectors two hidden layers; for images four convolutions, of which the first and the third halve the image."""
    if len(input_shape) == 1:
        return nn.mlp(2, "relu", weight_var=2.0, bias_var=0.1)
    layers: list[Layer] = []
    for strides in (2, 1, 2, 1):
        layers += [nn.Conv(3, weight_var=2.0, bias_var=0.1, strides=strides), nn.Relu()]
    return nn.Sequential(*layers, nn.Flatten())


class WideEnsemble(StructuredInputs, SavedEstimator):
    """Base of the ensembles of finite networks; not for direct use."""

    net_: Layer
    network_: ScaledNetwork
    scales_: np.ndarray
    parameters_: Any
    history_: EnsembleFit | None
    _kept = ("net_", "input_shape_", "scales_")
    _fitted_attribute: ClassVar[str] = "parameters_"
    _input_dtype: ClassVar[Any] = np.float32
    _numbers_stay = True

    def __init__(
        self,
        net: Any = None,
        prior: Any = None,
        members: int = 8,
        width: int = 128,
        learning_rate: float = 0.01,
        batch_size: int = 128,
        max_epochs: int = 100,
        early_stopping: bool = True,
        validation_fraction: float = 0.1,
        patience: int = 10,
        standardise: bool = True,
        readout: Any = "scaled",
        parametrisation: Any = "ntk",
        checkpoint: str | None = None,
        random_state: int = 0,
        verbose: bool = False,
        table: Any = None,
    ):
        self.net = net
        self.prior = prior
        self.members = members
        self.width = width
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.standardise = standardise
        self.readout = readout
        self.parametrisation = parametrisation
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.verbose = verbose
        self.table = table

    def _check_parameters(self) -> None:
        for name in ("members", "width", "batch_size", "max_epochs", "patience"):
            check_count(name, getattr(self, name))
        if not isinstance(self.random_state, numbers.Integral):
            raise ValueError(f"random_state must be an integer; got {self.random_state!r}.")
        if not 0 < self.validation_fraction < 1:
            raise ValueError(f"validation_fraction must lie between 0 and 1; got {self.validation_fraction!r}.")
        if self.readout not in get_args(Readout):
            raise ValueError(f"readout must be 'scaled' or 'direct'; got {self.readout!r}.")
        if self.net is not None and not isinstance(self.net, Layer):
            raise ValueError(f"net must be a network of widetail.nn, such as wt.nn.mlp(2), or None; got {self.net!r}.")
        if self.prior is not None and not isinstance(self.prior, ScalePrior):
            raise ValueError(f"prior must be a prior such as wt.InverseGamma(2.0, 2.0), or None; got {self.prior!r}.")

    def _train(self, x: np.ndarray, y: np.ndarray, loss: Loss, outputs: int, key: Any) -> np.ndarray:
        """Fit all members on standardised inputs; the rows that each of them held out, booleans (members, n)."""
        members_key, fit_key = split_key(key)
        prior = InverseGamma(2.0, 2.0) if self.prior is None else self.prior
        self.net_ = default_network(self.input_shape_) if self.net is None else self.net
        self.network_ = ScaledNetwork(
            self.net_, self.width, outputs=outputs, parametrisation=self.parametrisation, readout=self.readout
        )
        self.net_.output_signal(self.input_shape_, self.width, name="X")
        scales = draw_scales(prior, members_key, self.members)
        held_out = self._rows_to_hold_out(len(x))
        fit = fit_ensemble(
            self.network_,
            scales,
            x,
            y,
            key=fit_key,
            loss=loss,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            max_epochs=self.max_epochs,
            patience=self.patience,
            held_out=held_out if held_out.any() else None,
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
            progress=self.verbose,
        )
        self.history_, self.scales_, self.parameters_ = fit, fit.scales, fit.parameters
        return held_out

    def _rows_to_hold_out(self, n: int) -> np.ndarray:
        """Of rows in a random order every member holds out some, half of which its neighbour holds out too.

        What is measured on held-out rows then rests on several times as many of them as one member holds out, most of
        them unseen by two, so that the spread of the members among themselves can be told from the noise.
        """
        held_out = np.zeros((self.members, n), bool)
        count = round(self.validation_fraction * n)
        if self.early_stopping and count >= FEWEST_ROWS_TO_HOLD_OUT:
            order = np.random.default_rng(int(self.random_state)).permutation(n)
            for member, rows in enumerate(held_out):
                rows[order[(member * (count // 2) + np.arange(count)) % n]] = True
        return held_out

    def _outputs(self, x: Any) -> np.ndarray:
        """Outputs of every member in standard units, shape (members, n, outputs)."""
        inputs = self._new_inputs(x)
        return member_outputs(self.network_, self.parameters_, self.scales_, inputs)

    def _key(self) -> Any:
        return jax.random.key(int(self.random_state))

    def _learned(self) -> dict[str, Any]:
        check_is_fitted(self, "parameters_")
        network = self.network_.network
        return {
            "width": network.width,
            "outputs": network.outputs,
            "parametrisation": network.parametrisation,
            "readout": self.network_.readout,
            "parameters": jax.tree.leaves(self.parameters_),
        }

    def _restore(self, learned: dict[str, Any]) -> None:
        leaves = learned.pop("parameters")
        self.network_ = ScaledNetwork(self.net_, **learned)
        if not (self.scales_.ndim == 1 and np.all(self.scales_ > 0)):
            raise ValueError(f"scales_ must be positive; got {self.scales_!r}")
        key = jax.eval_shape(lambda: jax.random.key(0))
        one = jax.eval_shape(lambda key: self.network_.init(key, self.input_shape_, 1.0), key)
        members = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((len(self.scales_), *leaf.shape), leaf.dtype), one)
        self.parameters_ = with_leaves(members, leaves)
        self.history_ = None

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags
