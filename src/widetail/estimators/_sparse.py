"""What the sparse estimators share: parameters, units, streams, and the kernel learned before `sparse.fit`."""

import abc
import math
import numbers
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from widetail import sparse
from widetail.checks import check_count
from widetail.estimators._architecture import default_networks
from widetail.estimators._background import around_background
from widetail.estimators._files import SavedEstimator
from widetail.estimators._inputs import StructuredInputs
from widetail.estimators._scaling import Scaling
from widetail.estimators._stream import FirstRows
from widetail.estimators._wide import default_network
from widetail.kernels import Kernel
from widetail.learning import learn
from widetail.priors import InverseGamma, ScalePrior
from widetail.process import ScaledNoise, ScaleMixture
from widetail.programs import Program
from widetail.sparse import HeldOutChoice, SparseFit, SparseModel, TrainingOptions
from widetail.sparse.likelihoods import Likelihood

ROWS_TO_CHOOSE_BY = 400  # between networks, before the best is learned from more
# An evaluation of the evidence of a convolutional network costs seconds for this many images.
MOST_IMAGES_TO_LEARN_FROM = 200


class SparseEstimator(StructuredInputs, SavedEstimator):
    """Base of the sparse estimators; not for direct use."""

    kernel_: Kernel
    model_: SparseModel
    fit_: SparseFit | None
    choice_: HeldOutChoice | None
    first_rows_: FirstRows | None = None
    _is_left_to_another = False  # what `_compared` may find out
    _kept = ("input_shape_",)
    _fitted_attribute: ClassVar[str] = "model_"

    def __init__(
        self,
        net: Any = None,
        prior: Any = None,
        inducing: Any = 400,
        random_state: int = 0,
        learn: bool = True,
        learn_rows: int = 800,
        standardise: bool = True,
        options: TrainingOptions | None = None,
        cache: str | None = None,
        checkpoint: str | None = None,
        verbose: bool = False,
    ):
        self.net = net
        self.prior = prior
        self.inducing = inducing
        self.random_state = random_state
        self.learn = learn
        self.learn_rows = learn_rows
        self.standardise = standardise
        self.options = options
        self.cache = cache
        self.checkpoint = checkpoint
        self.verbose = verbose

    def _check_parameters(self) -> None:
        check_count("learn_rows", self.learn_rows)
        if self.options is not None and not isinstance(self.options, TrainingOptions):
            raise ValueError(
                f"options must be a sparse.TrainingOptions, or None for its defaults; got {self.options!r}."
            )
        if not hasattr(self.inducing, "shape") or np.ndim(self.inducing) == 0:
            check_count("inducing", self.inducing)
        if not isinstance(self.random_state, numbers.Integral):
            raise ValueError(f"random_state must be an integer; got {self.random_state!r}.")
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
        checkpoint: str | None,
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
            checkpoint: a file of its state.
        """
        x, y, counts, guide, labels = self._shuffled(x, y, counts, guide, labels)
        self.kernel_, noise = self._learned_kernel(x, guide, counts)
        likelihood = self._informed(likelihood, noise)
        self.kernel_, options = self._compared(self.kernel_, noise, likelihood, x, y, counts, labels)
        if self._is_left_to_another:
            return
        self._keep(
            sparse.fit(
                self.kernel_,
                self._prior,
                likelihood,
                x,
                y,
                inducing=self._given_inducing() if np.ndim(self.inducing) > 0 else int(self.inducing),
                outputs=outputs,
                counts=counts,
                labels=labels,
                options=options,
                is_shuffled=True,
                seed=self._seed,
                cache=self.cache,
                checkpoint=checkpoint,
                progress=self.verbose,
            )
        )

    def _fit_more(self, x: np.ndarray, y: np.ndarray, counts: np.ndarray) -> None:
        """Rows in standard units, in addition to those before."""
        x, y, counts = self._shuffled(x, y, counts)
        shared = {"options": self.options, "seed": self._seed, "cache": self.cache, "progress": self.verbose}
        self._keep(sparse.update(self.model_, x, y, counts=counts, **shared))

    @abc.abstractmethod
    def _first_fit(self, x: np.ndarray, targets: np.ndarray, counts: np.ndarray, checkpoint: str | None, /) -> None:
        """Everything, from inputs and targets in their own units, or numbers of classes."""

    def _begin_stream(self, x: np.ndarray, y: np.ndarray, counts: np.ndarray) -> None:
        """The first rows of a stream: everything is learned from them, and they are kept while they are few."""
        x = self._with_channels(x)
        is_first = not hasattr(self, "model_")
        self._first_fit(x, y, counts, self.checkpoint if is_first else None)
        self.first_rows_ = FirstRows.of(x, y, counts) if len(x) < self._rows_to_learn_from(x) else None

    def _begins_anew(self, x: np.ndarray, y: np.ndarray, counts: np.ndarray) -> bool:
        """Whether the first rows of the stream were few compared to these, and everything was learned from them all."""
        if self.first_rows_ is None:
            return False
        rows = self.first_rows_.followed_by(self._with_channels(x), y, counts)
        if rows.have_grown:
            self._begin_stream(rows.x, rows.y, rows.counts)
        else:
            self.first_rows_ = rows
        return rows.have_grown

    def _keep(self, model: SparseModel) -> None:
        self.kernel_, self.model_, self.fit_, self.choice_ = model.whitening.kernel, model, model.fit, model.choice

    def _given_inducing(self) -> np.ndarray:
        if self.table_ is not None:
            return self._in_standard_units(self._encoded(self.inducing))
        inputs = np.asarray(self.inducing, np.float64)
        if inputs[0].size != math.prod(self.input_shape_):
            raise ValueError(f"inducing must hold inputs of shape {self.input_shape_}, like X; got {inputs.shape[1:]}.")
        return self._in_standard_units(inputs.reshape(len(inputs), *self.input_shape_))

    def _informed(self, likelihood: Likelihood, noise: float) -> Likelihood:
        """The likelihood with what the evidence said about noise."""
        return likelihood

    def _compared(
        self,
        kernel: Kernel,
        noise: float,
        likelihood: Likelihood,
        x: np.ndarray,
        y: np.ndarray,
        counts: np.ndarray,
        labels: Any,
    ) -> tuple[Kernel, TrainingOptions | None]:
        """The kernel that evidence found, or a better one, and how to train with it."""
        return kernel, self.options

    def _learned_kernel(self, x: np.ndarray, guide: np.ndarray, counts: np.ndarray) -> tuple[Kernel, float]:
        """The kernel with hyperparameters of the largest Gaussian evidence on a subset, and the noise found."""
        is_table = x.ndim == 2
        if self.net is None and is_table:
            networks = default_networks(self._relevances(x))
        else:
            networks = {"given": default_network(x.shape[1:]) if self.net is None else self.net}
        networks = {name: self._on_table(net) for name, net in networks.items()}
        start = ScaledNoise(0.05)
        processes = {name: ScaleMixture(net, InverseGamma(2.0, 2.0), start) for name, net in networks.items()}
        if not self.learn:
            process = next(iter(processes.values()))
        else:
            is_quick = self._is_quick(x)
            count = self._rows_to_learn_from(x)
            process = learn(
                processes,
                x[:count].astype(np.float64),  # rows are in random order
                guide[:count],
                counts=counts[:count],
                choose_rows=ROWS_TO_CHOOSE_BY,
                choose_iterations=15,
                learn_rows=count,
                max_iterations=30 if is_quick else 8,
                tolerance=1e-4,
                seed=self._seed,
            ).process
        return process.kernel, float(process.noise.variance)  # type: ignore[return-value]

    def _is_quick(self, x: np.ndarray) -> bool:
        """Whether evaluations of the evidence are cheap, unlike those of a convolutional network."""
        return x.ndim == 2 or isinstance(self.net, Program)

    def _rows_to_learn_from(self, x: np.ndarray) -> int:
        return self.learn_rows if self._is_quick(x) else min(self.learn_rows, MOST_IMAGES_TO_LEARN_FROM)

    def _learned(self) -> dict[str, Any]:
        check_is_fitted(self, "model_")
        return self.model_.saved_fields()

    def _restore(self, learned: dict[str, Any]) -> None:
        self.model_ = SparseModel.from_saved(learned, self._prior)
        self.kernel_ = self.model_.whitening.kernel
        self.fit_, self.choice_ = None, None
        rows = self.first_rows_
        if rows is not None and rows.x.shape[1:] != self.input_shape_:
            raise ValueError(f"its first rows are of shape {rows.x.shape[1:]}")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        return tags
