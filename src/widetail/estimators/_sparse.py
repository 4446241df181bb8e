"""What the sparse estimators share: architecture, learning, inducing inputs, choices by held-out rows, training."""

import dataclasses
import math
import numbers
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from widetail.estimators._architecture import default_networks
from widetail.estimators._background import around_background
from widetail.estimators._inputs import StructuredInputs
from widetail.estimators._scaling import Scaling
from widetail.estimators._wide import default_network
from widetail.finite._draws import check_count
from widetail.kernels import Kernel
from widetail.learning import choose, fit_evidence
from widetail.priors import InverseGamma, ScalePrior
from widetail.process import ScaledNoise, ScaleMixture
from widetail.programs import Program
from widetail.sparse import (
    AdamFit,
    Ascent,
    HeldOutChoice,
    Memory,
    Rows,
    SparseFit,
    SparseModel,
    Variational,
    Whitening,
    choose_inducing,
    choose_open_share,
    choose_scale,
    law_for,
    train,
    train_adam,
    train_minibatches,
)
from widetail.sparse._memory import KEPT_ROWS
from widetail.sparse._rows import log_score
from widetail.sparse._train import Validate
from widetail.sparse.likelihoods import Likelihood

FEWEST_ROWS_TO_LEARN_FROM = 10
FEWEST_ROWS_TO_HOLD_OUT = 5
# Fewer held-out rows than this tell candidates apart by luck: what is chosen by them keeps its plain value.
FEWEST_ROWS_TO_CHOOSE_BY = 100
# Candidates are compared, and minibatches begun, after training on this many rows at most.
MOST_ROWS_TO_START_FROM = 16_384
# An evaluation of the evidence of a convolutional network costs seconds for this many images.
MOST_IMAGES_TO_LEARN_FROM = 200
# Beyond this many features single precision: half the memory and twice the speed.
MOST_DOUBLE_FEATURES = 4_000_000

SCALES = ("bound", "held_out", "given")
OPTIMISERS = ("natural", "stochastic", "adam")


class SparseEstimator(StructuredInputs, BaseEstimator):
    """Base of the sparse estimators; not for direct use."""

    n_features_in_: int
    feature_names_in_: np.ndarray
    kernel_: Kernel
    model_: SparseModel
    fit_: SparseFit | None
    choice_: HeldOutChoice | None
    _fitted_attribute: ClassVar[str] = "model_"

    def __init__(
        self,
        net: Any = None,
        prior: Any = None,
        inducing: Any = 400,
        random_state: int = 0,
        selection: Any = "auto",
        learn: bool = True,
        learn_rows: int = 800,
        scale: Any = "bound",
        open_share: Any = "held_out",
        standardise: bool = True,
        precision: Any = "auto",
        max_iterations: int = 40,
        tolerance: float = 1e-5,
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        patience: int = 5,
        optimiser: Any = "natural",
        train_inputs: bool = False,
        train_kernel: bool = False,
        epochs: int = 10,
        learning_rate: float = 0.01,
        batch_size: int = 256,
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
        self.scale = scale
        self.open_share = open_share
        self.standardise = standardise
        self.precision = precision
        self.max_iterations = max_iterations
        self.tolerance = tolerance
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.optimiser = optimiser
        self.train_inputs = train_inputs
        self.train_kernel = train_kernel
        self.epochs = epochs
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.cache = cache
        self.checkpoint = checkpoint
        self.verbose = verbose

    def _check_parameters(self) -> None:
        for name in ("learn_rows", "max_iterations", "patience", "epochs", "batch_size"):
            check_count(name, getattr(self, name))
        if not hasattr(self.inducing, "shape") or np.ndim(self.inducing) == 0:
            check_count("inducing", self.inducing)
        if not isinstance(self.random_state, numbers.Integral):
            raise ValueError(f"random_state must be an integer; got {self.random_state!r}.")
        if not 0 < self.validation_fraction < 1:
            raise ValueError(f"validation_fraction must lie between 0 and 1; got {self.validation_fraction!r}.")
        if self.precision not in ("auto", "float32", "float64"):
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
        if self.net is not None and not isinstance(self.net, Kernel):
            raise ValueError(f"net must be a network such as wt.nn.mlp(2), a kernel, or None; got {self.net!r}.")
        if self.prior is not None and not isinstance(self.prior, ScalePrior):
            raise ValueError(f"prior must be a prior such as wt.InverseGamma(2.0, 2.0), or None; got {self.prior!r}.")

    @property
    def _prior(self) -> ScalePrior:
        return InverseGamma(2.0, 2.0) if self.prior is None else self.prior

    @property
    def _seed(self) -> int:
        return int(self.random_state)

    def _pixel_scaling(self, x: np.ndarray, counts: np.ndarray | None) -> Scaling:
        return around_background(x, counts)

    def _shuffled(self, *parts: Any) -> list[Any]:
        """Rows in random order, the same for every part."""
        order = np.random.default_rng(self._seed).permutation(len(parts[0]))
        return [None if part is None else part[order] for part in parts]

    def _fit_all(
        self,
        x: np.ndarray,
        y: np.ndarray,
        counts: np.ndarray,
        guide: np.ndarray,
        labels: Any,
        likelihood: Likelihood,
        outputs: int,
    ) -> None:
        """Everything, from inputs in standard units.

        Args:
            x: inputs.
            y: targets of the likelihood.
            counts: how often each row was observed.
            guide: targets for the Gaussian evidence from which the kernel is learned.
            labels: classes, to balance inducing inputs by; None for numbers.
            likelihood: where learning starts.
            outputs: latent functions.
        """
        x, y, counts, guide, labels = self._shuffled(x, y, counts, guide, labels)
        self.kernel_, noise = self._learned_kernel(x, guide, counts)
        likelihood = self._informed(likelihood, noise)
        if np.ndim(self.inducing) > 0:
            chosen = self._given_inducing()
        else:
            count, method = int(self.inducing), self.selection
            if method == "auto":
                is_image = x.ndim > 2 and not isinstance(self.net, Program)
                method = "kmeans" if is_image else "greedy"
            chosen = choose_inducing(self.kernel_, x, count, method, labels=labels, seed=self._seed)
        precision = self.precision
        if precision == "auto":
            precision = "float64" if len(x) * len(chosen) <= MOST_DOUBLE_FEATURES else "float32"
        q = Variational.at_prior(outputs, len(chosen), law_for(self._prior, learn=self.scale != "given"))
        found = None
        if self.optimiser == "adam" or self.train_inputs or self.train_kernel:
            found = self._moved(chosen, precision, x, y, counts, likelihood, q)
            self.kernel_, chosen, likelihood, q = found.kernel, found.inducing, found.likelihood, found.q
        whitening = Whitening.of(self.kernel_, chosen, precision)
        model = SparseModel(whitening, q, likelihood, Memory.none(outputs, len(chosen)), self._share)
        self.choice_ = None
        if found is not None and self.optimiser == "adam":
            count = self._rows_to_train_on(len(x)) if self.early_stopping else len(x)
            self._keep_adam(model, x[:count], y[:count], counts[:count], found)
        else:
            self._train(model, x, y, counts, is_first=True)

    @property
    def _share(self) -> float:
        """Of the open variance, before held-out rows have their say."""
        return 1.0 if self.open_share == "held_out" else float(self.open_share)

    def _moved(
        self,
        inducing: np.ndarray,
        precision: str,
        x: np.ndarray,
        y: np.ndarray,
        counts: np.ndarray,
        likelihood: Likelihood,
        q: Variational,
    ) -> AdamFit:
        """What Adam finds through the kernel; it does not see rows that are held out for later choices."""
        is_asked = self.early_stopping or (self.optimiser != "adam" and self._is_choosing(len(x)))
        count = self._rows_to_train_on(len(x)) if is_asked else len(x)

        def validate(fit: AdamFit) -> float:
            whitening, held_out = Whitening.of(fit.kernel, fit.inducing, precision), slice(count, None)
            rows = self._rows_of(whitening, x, y, counts, held_out)
            return log_score(rows, fit.q, fit.likelihood, self._seed)

        if self.optimiser != "adam":
            # Adam is slow to find the posterior, and what moves with it would first move to make up for that
            rows = self._rows_of(Whitening.of(self.kernel_, inducing, precision), x, y, counts, slice(count))
            options: dict[str, Any] = {"seed": self._seed, "max_iterations": self.max_iterations}
            options |= {"checkpoint": self._file("before"), "progress": self.verbose}
            near = train(rows, likelihood, q, tolerance=1e-4, **options)
            q, likelihood = near.q, near.likelihood
        return train_adam(
            self.kernel_,
            inducing,
            x[:count].astype(precision),
            y[:count],
            likelihood,
            q,
            counts=counts[:count],
            train_inputs=self.train_inputs,
            train_kernel=self.train_kernel,
            open_share=self._share,
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            epochs=self.epochs,
            seed=self._seed,
            validate=validate if self.early_stopping and count < len(x) else None,
            patience=self.patience,
            checkpoint=self.checkpoint if self.optimiser == "adam" else self._file("adam"),
            progress=self.verbose,
        )

    def _rows_of(self, whitening: Whitening, x: np.ndarray, y: np.ndarray, counts: np.ndarray, part: slice) -> Rows:
        """Features that are not kept."""
        return Rows.of(*whitening.features(x[part]), y[part], counts[part]).with_open_share(self._share)

    def _is_choosing(self, rows: int) -> bool:
        """Whether held-out rows are asked, and enough to answer."""
        is_asked = self.open_share == "held_out" or self.scale == "held_out"
        return is_asked and rows - self._rows_to_train_on(rows) >= FEWEST_ROWS_TO_CHOOSE_BY

    def _rows_to_train_on(self, rows: int) -> int:
        """All but those that are held out; all where these would be too few to tell anything."""
        held_out = round(self.validation_fraction * rows)
        return rows - held_out if held_out >= FEWEST_ROWS_TO_HOLD_OUT else rows

    def _file(self, label: str) -> Path | None:
        """A file next to the checkpoint, of one part of training."""
        return None if self.checkpoint is None else Path(f"{self.checkpoint}-{label}")

    def _keep_adam(self, model: SparseModel, x: np.ndarray, y: np.ndarray, counts: np.ndarray, found: AdamFit) -> None:
        """The posterior that Adam found, as it is."""
        features = model.whitening.features(x, path=self.cache, progress=self.verbose)
        rows = Rows.of(*features, y, counts).with_open_share(model.open_share)
        self.fit_ = SparseFit.after_epochs(
            Ascent(rows, model.memory, self._seed),
            model.q,
            model.likelihood,
            found.bounds,
            scores=found.scores,
            kept_rows=KEPT_ROWS,
            converged=len(found.bounds) < self.epochs,
            seconds=found.seconds,
        )
        self.model_ = dataclasses.replace(model, memory=self.fit_.memory)

    def _given_inducing(self) -> np.ndarray:
        inputs = np.asarray(self.inducing, np.float64)
        return self.x_scaling_.apply(inputs.reshape(len(inputs), *self.input_shape_))

    def _informed(self, likelihood: Likelihood, noise: float) -> Likelihood:
        """The likelihood with what the evidence said about noise."""
        return likelihood

    def _train(
        self, model: SparseModel, x: np.ndarray, y: np.ndarray, counts: np.ndarray, *, is_first: bool = False
    ) -> None:
        """Natural gradients on the features of these rows, in addition to what the model remembers."""
        rows = Rows.of(*model.whitening.features(x, path=self.cache, progress=self.verbose), y, counts)
        q, likelihood, share = model.q, model.likelihood, model.open_share
        if is_first:
            self.choice_ = self._choice(rows, likelihood, q, share)
            if self.choice_ is not None:
                q, likelihood, share = self.choice_.start, self.choice_.likelihood, self.choice_.open_share
        rows = rows.with_open_share(share)
        validate: Validate | None = None
        if self.early_stopping and (count := self._rows_to_train_on(len(rows))) < len(rows):
            held_out = rows.after(count)
            validate = lambda q, likelihood: log_score(held_out, q, likelihood, self._seed)  # noqa: E731
            rows = rows.first(count)
        options: dict[str, Any] = {
            "seed": self._seed,
            "validate": validate,
            "patience": self.patience,
            # a file is of one run: later rows of a stream are another one
            "checkpoint": None if self.checkpoint is None or not is_first else Path(self.checkpoint),
            "progress": self.verbose,
        }
        limits: dict[str, Any] = {"max_iterations": self.max_iterations, "tolerance": self.tolerance}
        if is_first and self.optimiser == "stochastic":
            seen = min(self._rows_to_train_on(len(x)), MOST_ROWS_TO_START_FROM)
            if self.choice_ is None:
                seen = min(math.ceil(len(rows) / 4), MOST_ROWS_TO_START_FROM)
                own: dict[str, Any] = options | {"checkpoint": self._file("few")}
                few = train(rows.first(seen), likelihood, q, **limits, **own)
                q, likelihood = few.q, few.likelihood
            fit = train_minibatches(
                rows, likelihood, q, seen, batch_size=self.batch_size, epochs=self.epochs, **options
            )
        else:
            is_good_start = is_first and self.choice_ is not None
            fit = train(rows, likelihood, q, memory=model.memory, from_few=not is_good_start, **limits, **options)
        self.fit_ = fit
        self.model_ = SparseModel(model.whitening, fit.q, fit.likelihood, fit.memory, share)

    def _choice(self, rows: Rows, likelihood: Likelihood, q: Variational, share: float) -> HeldOutChoice | None:
        """What is chosen by held-out rows; None where nothing is, or where they are too few."""
        if not self._is_choosing(len(rows)):
            return None
        count = self._rows_to_train_on(len(rows))
        some, held_out = rows.first(min(count, MOST_ROWS_TO_START_FROM)), rows.after(count)
        options: dict[str, Any] = {"seed": self._seed, "max_iterations": self.max_iterations, "progress": self.verbose}
        options["checkpoint"] = self.checkpoint
        choice = None
        if self.open_share == "held_out":
            choice = choose_open_share(some, held_out, likelihood, q, **options)
            share = choice.open_share
        if self.scale == "held_out":
            choice = choose_scale(some, held_out, likelihood, q, open_share=share, **options)
        return choice

    def _learned_kernel(self, x: np.ndarray, guide: np.ndarray, counts: np.ndarray) -> tuple[Kernel, float]:
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
            is_quick = is_table or isinstance(self.net, Program)
            count = min(self.learn_rows, len(x), self.learn_rows if is_quick else MOST_IMAGES_TO_LEARN_FROM)
            rows, targets = x[:count].astype(np.float64), guide[:count]
            options: dict[str, Any] = {"counts": counts[:count], "tolerance": 1e-4}
            if len(processes) > 1:
                subset = min(count, 400)
                rough = choose(processes, rows, targets, subset=subset, seed=self._seed, max_iterations=15, **options)
                process = rough.fit.process
            process = fit_evidence(process, rows, targets, max_iterations=30 if is_quick else 8, **options).process
        return process.kernel, float(process.noise.variance)  # type: ignore[return-value]

    def save(self, path: str | Path) -> None:
        """Write the fitted model to one file, without pickles; `wt.load` reads it.

        It holds no inputs. For `partial_fit` it holds features and targets of up to 4096 rows, unless the noise is
        Gaussian.
        """
        from widetail.estimators._files import save  # the reader knows every estimator: a cycle at import time

        check_is_fitted(self, "model_")
        save(self, path)  # type: ignore[arg-type]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags
