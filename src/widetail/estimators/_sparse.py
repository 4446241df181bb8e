"""What the sparse estimators share: inputs, architecture, learning, inducing inputs, training."""

import functools
import numbers
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from widetail.estimators._architecture import default_networks
from widetail.estimators._scaling import Scaling
from widetail.estimators._wide import _as_images, default_network
from widetail.finite._draws import check_count
from widetail.kernels import Kernel
from widetail.learning import choose, fit_evidence
from widetail.priors import InverseGamma, ScalePrior
from widetail.process import ScaledNoise, ScaleMixture
from widetail.sparse import Rows, Sites, SparseFit, SparseModel, Variational, Whitening, choose_inducing, law_for, train
from widetail.sparse._rows import nodes_of, values, variances
from widetail.sparse._train import Validate
from widetail.sparse.likelihoods import Likelihood

FEWEST_ROWS_TO_LEARN_FROM = 10
FEWEST_ROWS_TO_HOLD_OUT = 5
# An evaluation of the evidence of a convolutional network costs seconds for this many images.
MOST_IMAGES_TO_LEARN_FROM = 200
# Beyond this many features single precision: half the memory and twice the speed.
MOST_DOUBLE_FEATURES = 4_000_000


class SparseEstimator(BaseEstimator):
    """Base of the sparse estimators; not for direct use."""

    n_features_in_: int
    feature_names_in_: np.ndarray
    x_scaling_: Scaling
    input_shape_: tuple[int, ...]
    kernel_: Kernel
    model_: SparseModel
    fit_: SparseFit | None

    def __init__(
        self,
        net: Any = None,
        prior: Any = None,
        inducing: Any = 400,
        random_state: int = 0,
        selection: Any = "greedy",
        learn: bool = True,
        learn_rows: int = 800,
        learn_scale: bool = True,
        standardise: bool = True,
        precision: Any = "auto",
        max_iterations: int = 40,
        tolerance: float = 1e-5,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 5,
        cache: str | None = None,
        checkpoint: str | None = None,
        verbose: bool = False,
    ):
        self.net = net
        self.prior = prior
        self.inducing = inducing
        self.random_state = random_state
        self.selection = selection
        self.learn = learn
        self.learn_rows = learn_rows
        self.learn_scale = learn_scale
        self.standardise = standardise
        self.precision = precision
        self.max_iterations = max_iterations
        self.tolerance = tolerance
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.cache = cache
        self.checkpoint = checkpoint
        self.verbose = verbose

    def _check_parameters(self) -> None:
        for name in ("learn_rows", "max_iterations", "patience"):
            check_count(name, getattr(self, name))
        if not hasattr(self.inducing, "shape") or np.ndim(self.inducing) == 0:
            check_count("inducing", self.inducing)
        if not isinstance(self.random_state, numbers.Integral):
            raise ValueError(f"random_state must be an integer; got {self.random_state!r}.")
        if not 0 < self.validation_fraction < 1:
            raise ValueError(f"validation_fraction must lie between 0 and 1; got {self.validation_fraction!r}.")
        if self.precision not in ("auto", "float32", "float64"):
            raise ValueError(f"precision must be 'auto', 'float32' or 'float64'; got {self.precision!r}.")
        if self.net is not None and not isinstance(self.net, Kernel):
            raise ValueError(f"net must be a network such as wt.nn.mlp(2), a kernel, or None; got {self.net!r}.")
        if self.prior is not None and not isinstance(self.prior, ScalePrior):
            raise ValueError(f"prior must be a prior such as wt.InverseGamma(2.0, 2.0), or None; got {self.prior!r}.")

    @property
    def _prior(self) -> ScalePrior:
        return InverseGamma(2.0, 2.0) if self.prior is None else self.prior

    def _fit_all(
        self, x: np.ndarray, y: np.ndarray, guide: np.ndarray, labels: Any, likelihood: Likelihood, outputs: int
    ) -> None:
        """Everything, from inputs in standard units.

        Args:
            x: inputs.
            y: targets of the likelihood.
            guide: targets for the Gaussian evidence from which the kernel is learned.
            labels: classes, to balance inducing inputs by; None for numbers.
            likelihood: where learning starts.
            outputs: latent functions.
        """
        order = np.random.default_rng(int(self.random_state)).permutation(len(x))
        x, y, guide = x[order], y[order], guide[order]
        labels = None if labels is None else labels[order]
        self.kernel_, noise = self._learned_kernel(x, guide)
        likelihood = self._informed(likelihood, noise)
        given = np.ndim(self.inducing) > 0
        chosen = self._given_inducing() if given else None
        if chosen is None:
            seed = int(self.random_state)
            chosen = choose_inducing(self.kernel_, x, int(self.inducing), self.selection, labels=labels, seed=seed)
        precision = self.precision
        if precision == "auto":
            precision = "float64" if len(x) * len(chosen) <= MOST_DOUBLE_FEATURES else "float32"
        whitening = Whitening.of(self.kernel_, chosen, precision)
        q = Variational.at_prior(outputs, len(chosen), law_for(self._prior, learn=self.learn_scale))
        self._train(SparseModel(whitening, q, likelihood, Sites.none(outputs, len(chosen))), x, y)

    def _given_inducing(self) -> np.ndarray:
        inputs = np.asarray(self.inducing, np.float64)
        inputs = inputs.reshape(len(inputs), *self.input_shape_)
        return self.x_scaling_.apply(inputs)

    def _informed(self, likelihood: Likelihood, noise: float) -> Likelihood:
        """The likelihood with what the evidence said about noise."""
        return likelihood

    def _train(self, model: SparseModel, x: np.ndarray, y: np.ndarray) -> None:
        """Natural gradients on the features of these rows, in addition to what the model remembers."""
        held_out = len(x) - round(self.validation_fraction * len(x))
        has_validation = self.early_stopping and len(x) - held_out >= FEWEST_ROWS_TO_HOLD_OUT
        features, residual = model.whitening.features(x, path=self.cache, progress=self.verbose)
        rows = Rows.of(features, residual, y)
        validate: Validate | None = None
        if has_validation:
            rows, others = rows.first(held_out), Rows.of(features[held_out:], residual[held_out:], y[held_out:])
            validate = functools.partial(_expected_log_score, others, int(self.random_state))
        fit = train(
            rows,
            model.likelihood,
            model.q,
            sites=model.sites,
            max_iterations=self.max_iterations,
            tolerance=self.tolerance,
            seed=int(self.random_state),
            validate=validate,
            patience=self.patience,
            # a file is of one run: later rows of a stream are another one
            checkpoint=None if self.checkpoint is None or model.sites.observations else Path(self.checkpoint),
            progress=self.verbose,
        )
        self.fit_ = fit
        self.model_ = SparseModel(model.whitening, fit.q, fit.likelihood, fit.sites)

    def _learned_kernel(self, x: np.ndarray, guide: np.ndarray) -> tuple[Kernel, float]:
        """The kernel with hyperparameters of the largest Gaussian evidence on a subset, and the noise found."""
        is_table = x.ndim == 2
        if self.net is None and is_table:
            networks = default_networks(x.shape[1])
        else:
            networks = {"given": default_network(x.shape[1:]) if self.net is None else self.net}
        start = ScaledNoise(0.05)
        processes = {name: ScaleMixture(net, InverseGamma(2.0, 2.0), start) for name, net in networks.items()}
        process = next(iter(processes.values()))
        if self.learn and len(x) >= FEWEST_ROWS_TO_LEARN_FROM:
            count = min(self.learn_rows, len(x), self.learn_rows if is_table else MOST_IMAGES_TO_LEARN_FROM)
            rows, targets, seed = x[:count].astype(np.float64), guide[:count], int(self.random_state)
            if len(processes) > 1:
                process = choose(
                    processes, rows, targets, subset=min(count, 400), seed=seed, max_iterations=15, tolerance=1e-4
                ).fit.process
            iterations = 30 if is_table else 8
            process = fit_evidence(process, rows, targets, max_iterations=iterations, tolerance=1e-4).process
        return process.kernel, float(process.noise.variance)  # type: ignore[return-value]

    def _first_inputs(self, x: np.ndarray) -> np.ndarray:
        """Remember shape and scaling of the inputs; the inputs in standard units."""
        x = _as_images(x)
        self.input_shape_ = x.shape[1:]
        flat = x if x.ndim == 2 else x.reshape(-1, 1)
        self.x_scaling_ = Scaling.of(flat) if self.standardise else Scaling.identity(flat.shape[1])
        return self.x_scaling_.apply(x)

    def _more_inputs(self, x: Any) -> np.ndarray:
        """Inputs of another call, checked against the first ones, in standard units."""
        x = _as_images(np.asarray(x))
        if x.shape[1:] != self.input_shape_:
            raise ValueError(f"X must hold inputs of shape {self.input_shape_}, as in fit; got {x.shape[1:]}.")
        return self.x_scaling_.apply(x)

    def _new_inputs(self, x: Any) -> np.ndarray:
        check_is_fitted(self, "model_")
        return self._more_inputs(validate_data(self, x, reset=False, dtype=np.float64, allow_nd=True))

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, without pickles and without the training data; `wt.load` reads it."""
        from widetail.estimators._files import save  # the reader knows every estimator: a cycle at import time

        check_is_fitted(self, "model_")
        save(self, path)  # type: ignore[arg-type]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags


def _expected_log_score(rows: Rows, seed: int, q: Variational, likelihood: Likelihood) -> float:
    """The expected log density of held-out rows: it bounds their log score from below, and costs no other integral."""
    nodes = nodes_of(q.law, likelihood, len(q.mean), seed, rows.features.dtype, 64)
    return values(rows, q.mean, variances(rows, q), likelihood, nodes) / len(rows)
