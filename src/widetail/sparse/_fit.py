"""From a kernel, a prior, a likelihood and arrays to a sparse model."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np

from widetail.kernels import Kernel
from widetail.priors import ScalePrior
from widetail.progress import Progress
from widetail.sparse._features import Whitening
from widetail.sparse._inducing import choose_inducing
from widetail.sparse._memory import Memory
from widetail.sparse._model import SparseModel
from widetail.sparse._options import TrainingOptions
from widetail.sparse._rows import CachedRows, log_score
from widetail.sparse._variational import Variational
from widetail.sparse.likelihoods import Likelihood
from widetail.sparse.scales import law_for
from widetail.sparse.training._adam import AdamFit, train_adam
from widetail.sparse.training._held_out import HeldOutChoice, choose_residual_share, choose_scale
from widetail.sparse.training._natural import Ascent
from widetail.sparse.training._stochastic import train_minibatches
from widetail.sparse.training._train import SparseFit, Validate, train

FEWEST_ROWS_TO_HOLD_OUT = 5
# With fewer held-out rows the choice would be random: the default is kept.
FEWEST_ROWS_TO_CHOOSE_BY = 100
# Candidates are compared, and minibatches begun, after training on this many rows at most.
MOST_ROWS_TO_START_FROM = 16_384
# Beyond this many features single precision: half the memory and twice the speed.
MOST_DOUBLE_FEATURES = 4_000_000


def fit(
    kernel: Kernel,
    prior: ScalePrior,
    likelihood: Likelihood,
    x: Any,
    y: Any,
    *,
    inducing: Any = 400,
    outputs: int | None = None,
    counts: Any = None,
    labels: Any = None,
    options: TrainingOptions | None = None,
    is_shuffled: bool = False,
    seed: int = 0,
    cache: str | Path | None = None,
    checkpoint: str | Path | None = None,
    progress: Progress = False,
) -> SparseModel:
    """Choose inducing inputs, make the choices that are left to held-out rows, train.

    Args:
        kernel: a network or a kernel, with its hyperparameters; `widetail.learning.learn` finds them.
        prior: of the scale.
        likelihood: where learning of its parameters starts.
        x: inputs, rows first.
        y: targets of the likelihood: shape (n,) or (n, outputs), class numbers (n,) for `Categorical`.
        inducing: how many inducing inputs, at most as many as rows, or the inputs themselves.
        outputs: latent functions; found from y, or from the classes of a `Categorical`, by default.
        counts: how often each row was observed, shape (n,); once by default.
        labels: class numbers to balance inducing inputs by, shape (n,).
        options: of training.
        is_shuffled: whether rows are in random order already.
        seed: of the order of the rows, the choice of inducing inputs and the draws of f.
        cache: a file in which features are kept as a memory map.
        checkpoint: a file that is written after every iteration or epoch and resumed from.
        progress: True for bars on a terminal, or a function of (done, in all).

    Returns:
        A model that predicts (`f`, `y`, `class_probabilities`); `update` adds rows to it.

    Example:
        >>> import numpy as np, widetail as wt
        >>> from widetail import sparse
        >>> x = np.linspace(-2.0, 2.0, 60)[:, None]
        >>> model = sparse.fit(
        ...     wt.nn.mlp(1, "erf"), wt.InverseGamma(2.0, 2.0), sparse.Gaussian(0.01), x, np.sin(2 * x), inducing=12
        ... )
        >>> bool(abs(model.y(np.array([[0.5]])).mean[0, 0] - np.sin(1.0)) < 0.1)
        True
    """
    x, y, counts = _checked(likelihood, x, y, counts)
    options = (TrainingOptions() if options is None else options).without_auto(likelihood, x.ndim)
    outputs = _outputs(likelihood, y) if outputs is None else outputs
    if not is_shuffled:
        order = np.random.default_rng(seed).permutation(len(x))
        x, y, counts = x[order], y[order], counts[order]
        labels = None if labels is None else np.asarray(labels)[order]
    settings = _Settings(options, seed, cache, None if checkpoint is None else Path(checkpoint), progress)
    if np.ndim(inducing) > 0:
        chosen = np.asarray(inducing, np.float64)
    else:
        chosen = choose_inducing(kernel, x, int(inducing), options.selection, labels=labels, seed=seed)
    precision = options.precision
    if precision == "auto":
        precision = "float64" if len(x) * len(chosen) <= MOST_DOUBLE_FEATURES else "float32"
    law = law_for(prior, learn=options.scale != "given")
    law = law if isinstance(options.scale, str) else law.held_at(float(options.scale))
    q = Variational.at_prior(outputs, len(chosen), law)
    found = None
    if options.optimiser == "adam" or options.train_inputs or options.train_kernel:
        found = settings.moved(kernel, chosen, precision, x, y, counts, likelihood, q)
        kernel, chosen, likelihood, q = found.kernel, found.inducing, found.likelihood, found.q
    whitening = Whitening.of(kernel, chosen, precision)
    model = SparseModel(whitening, q, likelihood, Memory.none(outputs, len(chosen)), options.first_share)
    if found is not None and options.optimiser == "adam":
        count = settings.rows_to_train_on(len(x)) if options.early_stopping else len(x)
        return settings.with_adam(model, x[:count], y[:count], counts[:count], found)
    return settings.trained(model, x, y, counts, is_first=True)


def update(
    model: SparseModel,
    x: Any,
    y: Any,
    *,
    counts: Any = None,
    options: TrainingOptions | None = None,
    seed: int = 0,
    cache: str | Path | None = None,
    progress: Progress = False,
) -> SparseModel:
    """The model after more rows: the same as of one fit to all of them.

    Kernel, inducing inputs and what was chosen by held-out rows stay as they are.

    Args:
        model: what `fit` or `update` found.
        x, y, counts, options, seed, cache, progress: as in `fit`.
    """
    x, y, counts = _checked(model.likelihood, x, y, counts)
    settings = _Settings(TrainingOptions() if options is None else options, seed, cache, None, progress)
    return settings.trained(model, x, y, counts, is_first=False)


def _checked(likelihood: Likelihood, x: Any, y: Any, counts: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, y = np.asarray(x), np.asarray(y)
    counts = np.ones(len(y)) if counts is None else np.asarray(counts, np.float64)
    if not len(x) == len(y) == len(counts) or not len(x):
        raise ValueError(f"x, y and counts must have as many rows, one or more; got {len(x)}, {len(y)}, {len(counts)}.")
    likelihood.check_targets(y)
    return x, y[:, None] if y.ndim == 1 and not likelihood.couples_outputs else y, counts


def _outputs(likelihood: Likelihood, y: np.ndarray) -> int:
    if not likelihood.couples_outputs:
        return y.shape[1]
    classes = getattr(likelihood, "classes", None)
    if classes is None:
        raise ValueError(f"outputs must be given for {type(likelihood).__name__}, whose targets depend on all of them.")
    return int(classes)


@dataclasses.dataclass(frozen=True, eq=False)
class _Settings:
    """The settings that the parts of training share."""

    options: TrainingOptions
    seed: int
    cache: str | Path | None
    checkpoint: Path | None
    progress: Progress

    def rows_to_train_on(self, rows: int) -> int:
        """All but those that are held out; all where too few would be held out."""
        held_out = round(self.options.validation_fraction * rows)
        return rows - held_out if held_out >= FEWEST_ROWS_TO_HOLD_OUT else rows

    def is_choosing(self, rows: int) -> bool:
        """Whether anything is chosen by held-out rows, and there are enough of them."""
        is_asked = self.options.residual_share == "held_out" or self.options.scale == "held_out"
        return is_asked and rows - self.rows_to_train_on(rows) >= FEWEST_ROWS_TO_CHOOSE_BY

    def file(self, label: str) -> Path | None:
        """A file next to the checkpoint, of one part of training."""
        return None if self.checkpoint is None else Path(f"{self.checkpoint}-{label}")

    def moved(
        self,
        kernel: Kernel,
        inducing: np.ndarray,
        precision: str,
        x: np.ndarray,
        y: np.ndarray,
        counts: np.ndarray,
        likelihood: Likelihood,
        q: Variational,
    ) -> AdamFit:
        """The result of Adam through the kernel, without rows that are held out for later choices."""
        own = self.options
        is_asked = own.early_stopping or (own.optimiser != "adam" and self.is_choosing(len(x)))
        count = self.rows_to_train_on(len(x)) if is_asked else len(x)

        def rows_of(whitening: Whitening, part: slice) -> CachedRows:
            return CachedRows.of(*whitening.features(x[part]), y[part], counts[part]).with_residual_share(
                own.first_share
            )

        def validate(fit: AdamFit) -> float:
            rows = rows_of(Whitening.of(fit.kernel, fit.inducing, precision), slice(count, None))
            return log_score(rows, fit.q, fit.likelihood, self.seed)

        if own.optimiser != "adam":
            # Adam finds the posterior slowly, and kernel and inducing inputs would first compensate for that
            near = train(
                rows_of(Whitening.of(kernel, inducing, precision), slice(count)),
                likelihood,
                q,
                tolerance=1e-4,
                seed=self.seed,
                max_iterations=own.max_iterations,
                learn_likelihood=own.learn_likelihood,
                checkpoint=self.file("before"),
                progress=self.progress,
            )
            q, likelihood = near.q, near.likelihood
        return train_adam(
            kernel,
            inducing,
            x[:count].astype(precision),
            y[:count],
            likelihood,
            q,
            counts=counts[:count],
            train_inputs=own.train_inputs,
            train_kernel=own.train_kernel,
            residual_share=own.first_share,
            learning_rate=own.learning_rate,
            batch_size=own.batch_size,
            epochs=own.epochs,
            seed=self.seed,
            validate=validate if own.early_stopping and count < len(x) else None,
            patience=own.patience,
            checkpoint=self.checkpoint if own.optimiser == "adam" else self.file("adam"),
            progress=self.progress,
        )

    def with_adam(
        self, model: SparseModel, x: np.ndarray, y: np.ndarray, counts: np.ndarray, found: AdamFit
    ) -> SparseModel:
        """The posterior that Adam found, as it is."""
        features = model.whitening.features(x, path=self.cache, progress=self.progress)
        rows = CachedRows.of(*features, y, counts).with_residual_share(model.residual_share)
        fit = SparseFit.after_epochs(
            Ascent(rows, model.memory, self.seed),
            model.q,
            model.likelihood,
            found.bounds,
            scores=found.scores,
            kept_rows=self.options.kept_rows,
            converged=len(found.bounds) < self.options.epochs,
            seconds=found.seconds,
        )
        return dataclasses.replace(model, memory=fit.memory, fit=fit, choice=None)

    def trained(
        self, model: SparseModel, x: np.ndarray, y: np.ndarray, counts: np.ndarray, *, is_first: bool
    ) -> SparseModel:
        """Natural gradients on the features of these rows, in addition to what the model remembers."""
        own = self.options
        rows = CachedRows.of(*model.whitening.features(x, path=self.cache, progress=self.progress), y, counts)
        q, likelihood, share, choice = model.q, model.likelihood, model.residual_share, model.choice
        if is_first:
            choice = self.choice(rows, likelihood, q, share)
            if choice is not None:
                q, likelihood, share = choice.start, choice.likelihood, choice.residual_share
        rows = rows.with_residual_share(share)
        validate: Validate | None = None
        if own.early_stopping and (count := self.rows_to_train_on(len(rows))) < len(rows):
            held_out = rows.after(count)
            validate = lambda q, likelihood: log_score(held_out, q, likelihood, self.seed)  # noqa: E731
            rows = rows.first(count)
        shared: dict[str, Any] = {
            "seed": self.seed,
            "learn_likelihood": own.learn_likelihood,
            "validate": validate,
            "patience": own.patience,
            "progress": self.progress,
        }
        limits: dict[str, Any] = {"max_iterations": own.max_iterations, "tolerance": own.tolerance}
        if is_first and own.optimiser == "stochastic":
            seen = min(self.rows_to_train_on(len(x)), MOST_ROWS_TO_START_FROM)
            if choice is None:
                seen = min(math.ceil(len(rows) / 4), MOST_ROWS_TO_START_FROM)
                few = train(rows.first(seen), likelihood, q, checkpoint=self.file("few"), **limits, **shared)
                q, likelihood = few.q, few.likelihood
            found = train_minibatches(
                rows,
                likelihood,
                q,
                seen,
                kept_rows=own.kept_rows,
                batch_size=own.batch_size,
                epochs=own.epochs,
                checkpoint=self.checkpoint,
                **shared,
            )
        else:
            found = train(
                rows,
                likelihood,
                q,
                memory=model.memory,
                kept_rows=own.kept_rows,
                from_few=not (is_first and choice is not None),
                checkpoint=self.checkpoint,
                **limits,
                **shared,
            )
        return SparseModel(model.whitening, found.q, found.likelihood, found.memory, share, found, choice)

    def choice(self, rows: CachedRows, likelihood: Likelihood, q: Variational, share: float) -> HeldOutChoice | None:
        """What is chosen by held-out rows; None where nothing is, or where they are too few."""
        if not self.is_choosing(len(rows)):
            return None
        count = self.rows_to_train_on(len(rows))
        some, held_out = rows.first(min(count, MOST_ROWS_TO_START_FROM)), rows.after(count)
        shared: dict[str, Any] = {
            "seed": self.seed,
            "max_iterations": self.options.max_iterations,
            "learn_likelihood": self.options.learn_likelihood,
            "progress": self.progress,
            "checkpoint": self.checkpoint,
        }
        choice = None
        if self.options.residual_share == "held_out":
            choice = choose_residual_share(some, held_out, likelihood, q, trainer=train, **shared)
            share = choice.residual_share
        if self.options.scale == "held_out":
            choice = choose_scale(some, held_out, likelihood, q, residual_share=share, trainer=train, **shared)
        return choice
