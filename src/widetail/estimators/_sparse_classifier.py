"""Classification with a sparse scale mixture, as a scikit-learn estimator."""

import dataclasses
from typing import Any

import numpy as np
from scipy.special import xlogy
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from widetail.estimators._architecture import plain_networks
from widetail.estimators._class_choice import FEWEST_ROWS, choose_for_classes
from widetail.estimators._files import PATHS, SavedEstimator
from widetail.estimators._inputs import with_weights
from widetail.estimators._scaling import Scaling
from widetail.estimators._sparse import SparseEstimator
from widetail.estimators._treatment import ImageTreatment
from widetail.files import savable
from widetail.kernels import Kernel, Linear
from widetail.predictive import Predictive
from widetail.priors import InverseGamma
from widetail.process import ScaledNoise, ScaleMixture
from widetail.sparse import ClassProbabilities, Doubt, TrainingOptions, fit_doubt
from widetail.sparse.likelihoods import Bernoulli, Categorical, Likelihood

BACKGROUND = "background"
SMOOTHED = "smoothed"
ROWS_FOR_DOUBT = 6144


@savable("estimators.SparseMixtureClassifier", without=PATHS)
class SparseMixtureClassifier(ClassifierMixin, SparseEstimator):
    """Classification with an infinitely wide network and a likelihood of classes, for data sets of any length.

    Variational inference with inducing inputs: SVGP for a `PointMass` prior of the readout variance, SVTP for an
    inverse gamma, and any other prior by a categorical on a grid of logarithms. The kernel's hyperparameters are
    learned first, by the evidence of a Gaussian likelihood on a subset of the rows, and then fixed, as are the inducing
    inputs: features are computed once, and training is matrix products. Of tables, networks that were learned, plain
    ones and linear functions are compared by the labels of left-out rows (up to 400, four folds), and without a prior
    of the user's own the scale is held where it gives these the best probabilities.

    Args:
        net: a network of `widetail.nn` or a kernel; by default one is chosen by evidence for tables, and images
            (n, height, width[, channels]) get four convolutions. A program takes sequences (n, time, features).
        prior: prior of the readout variance; InverseGamma(2, 2) by default. The value of a `PointMass` is learned by
            empirical Bayes, or kept with `TrainingOptions(scale="given")`.
        inducing: number of inducing inputs (at most as many as rows), or the inputs themselves, in the units of X.
        random_state: an integer seed; the same seed gives the same model.
        learn: whether to learn the kernel's hyperparameters.
        learn_rows: rows of the subset from which they are learned (of images at most 200).
        standardise: whether to standardise inputs: per column of a table or feature of a sequence, images as `images`
            says.
        options: everything else about training, as a `sparse.TrainingOptions`; its defaults by default.
        cache: a file in which features are kept as a memory map, and found again by a later fit of the same kernel and
            rows, or after a fit that was stopped; None keeps them in memory.
        checkpoint: a file that is written after every iteration or epoch and resumed from; what comes before the last
            part of training has files of its own, with names that begin with this one.
        verbose: whether to show progress bars.
        table: how frames are read, a `TableEncoder`; None for its defaults. One that is fitted stays as it is.
        images: what is done to every image first: "smoothed" is `ImageTreatment()`, and any other `ImageTreatment` can
            be given; "background" is one shift and factor for all pixels of all images, with the median of the border
            as zero. Not for tables and sequences.
        doubt: whether to learn, by hiding classes of the training rows in turn, how likely an input is of a class
            without rows: True, False, or "auto" for where `classes` names some of which `y` has none. It goes to the
            probabilities of those classes, and `doubts` gives it for any input.

    Attributes:
        classes_: the labels.
        kernel_: the kernel with learned hyperparameters.
        model_: the `sparse.SparseModel`.
        fit_: how training went, as a `sparse.SparseFit`; None in a loaded model.
        architecture_: the network that was chosen for a table; "given" without a choice, None in a loaded model.
        network_scores_: mean log probability of labels of left-out rows with each of them, and of exact regression on
            one-hot targets (`ScaleMixtureClassifier`); None where there was none.
        choice_: what held-out rows said, as a `sparse.HeldOutChoice`; None where they were not asked.
        table_: of a model that was fitted to a frame, the fitted `TableEncoder`; else None.
        doubt_: a `sparse.Doubt`, or None where none was learned.

    Example:
        >>> import numpy as np
        >>> import widetail as wt
        >>> x = np.random.default_rng(0).normal(size=(80, 2))
        >>> model = wt.SparseMixtureClassifier(net=wt.nn.mlp(1), inducing=20, learn=False).fit(x, x[:, 0] > 0)
        >>> model.predict(np.array([[2.0, 0.0], [-2.0, 0.0]])).tolist()
        [True, False]
    """

    classes_: np.ndarray
    _may_be_left = False
    doubt_: Doubt | None
    architecture_: str | None
    network_scores_: dict[str, float] | None
    _kept = ("classes_",)

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
        images: Any = SMOOTHED,
        doubt: Any = "auto",
        table: Any = None,
    ):
        super().__init__(
            net, prior, inducing, random_state, learn, learn_rows, standardise, options, cache, checkpoint, verbose
        )
        self.images = images
        self.doubt = doubt
        self.table = table

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.images, ImageTreatment) and self.images not in (SMOOTHED, BACKGROUND):
            raise ValueError(f"images must be {SMOOTHED!r}, {BACKGROUND!r} or an ImageTreatment; got {self.images!r}.")
        if self.doubt not in ("auto", True, False):
            raise ValueError(f"doubt must be True, False or 'auto'; got {self.doubt!r}.")

    @property
    def _treatment(self) -> ImageTreatment | None:
        is_image = len(self.input_shape_) > 1 and self._takes_images
        if not is_image or not self.standardise or self.images == BACKGROUND:
            return None
        return ImageTreatment() if self.images == SMOOTHED else self.images

    def _pixel_scaling(self, x: np.ndarray, counts: np.ndarray | None) -> Scaling:
        return super()._pixel_scaling(x, counts) if self._treatment is None else Scaling.identity(1)

    def _in_standard_units(self, x: np.ndarray) -> np.ndarray:
        return super()._in_standard_units(x if self._treatment is None else self._treatment.apply(x))

    @classmethod
    def from_saved(cls, fields: dict[str, Any]) -> "SavedEstimator":
        # files from before there were treatments hold models of images around their background
        return super().from_saved(fields | {"parameters": {"images": BACKGROUND} | fields["parameters"]})

    def fit_unless_left(self, X: Any, y: Any, sample_weight: Any = None) -> bool:
        """Fit, but for tables whose left-out labels are clearly more probable by regression on one-hot targets.

        Returns:
            Whether this model is fitted.
        """
        self._may_be_left = True
        try:
            self.fit(X, y, sample_weight)
            return not self._is_left_to_another
        finally:
            del self._may_be_left

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, classes: Any = None) -> "SparseMixtureClassifier":
        """Learn the kernel, choose inducing inputs, train.

        Args:
            X: inputs, shape (n, d), as an array or a frame, or images (n, height, width[, channels]).
            y: labels, shape (n,), of any kind.
            sample_weight: a row of weight w counts as w equal rows; shape (n,).
            classes: all labels there are, when `y` may lack some of them; by default those of `y`.
        """
        self._check_parameters()
        x, y = (np.asarray(part) for part in self._checked(X, y, allow_nd=True))
        check_classification_targets(y)
        x, y, counts = with_weights(x, y, sample_weight)
        self.classes_ = np.unique(y if classes is None else np.asarray(classes))
        numbers = self._numbers(y)
        self._first_fit(x, numbers, counts, self.checkpoint)
        self.first_rows_ = None
        is_wanted = len(np.unique(numbers)) < len(self.classes_) if self.doubt == "auto" else self.doubt
        if is_wanted and len(self.classes_) > 2:
            (order,) = self._shuffled(np.arange(len(x)))
            inputs = self._more_inputs(x[order[:ROWS_FOR_DOUBT]])
            self.doubt_ = fit_doubt(self.model_, inputs, numbers[order], seed=self._seed, progress=self.verbose)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> "SparseMixtureClassifier":
        """Learn from more rows in addition to those before, and end where one table of them all would.

        Kernel, scaling and inducing inputs are learned from all rows as long as there are fewer than `learn_rows` of
        them: they are kept for that, also in the file of `save`, and a call that adds a tenth or more ends exactly
        where `fit` would (without its `doubt`). From then on, or after `fit`, they stay, so early rows should be like
        later ones. The last 4096 rows are kept as features and targets, also in the file of `save`; of older ones
        their Gaussian factors are remembered, which is an approximation.

        Args:
            X, y: as in `fit`.
            classes: all labels that will ever come; needed in the first call.
            sample_weight: as in `fit`.
        """
        self._check_parameters()
        is_first = not hasattr(self, "model_")
        checked = self._checked(X, y, allow_nd=True, reset=is_first)
        x, y = (np.asarray(part) for part in checked)
        check_classification_targets(y)
        x, y, counts = with_weights(x, y, sample_weight)
        if is_first:
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit: all labels that will come.")
            self.classes_ = np.unique(np.asarray(classes))
            self._begin_stream(x, self._numbers(y), counts)
            return self
        if classes is not None and not np.array_equal(np.unique(np.asarray(classes)), self.classes_):
            raise ValueError(f"classes must be those of the first call, {self.classes_!r}; got {classes!r}.")
        numbers = self._numbers(y)
        inputs = self._more_inputs(x)
        if not self._begins_anew(x, numbers, counts):
            self._fit_more(inputs, self._targets(numbers), counts)
        if self.doubt_ is not None:
            self.doubt_ = self.doubt_.after(numbers)
        return self

    def _first_fit(self, x: np.ndarray, numbers: np.ndarray, counts: np.ndarray, checkpoint: str | None) -> None:
        classes = self.classes_
        if len(classes) < 2:
            raise ValueError(f"y must hold at least two classes; it has only one class, {classes.tolist()[0]!r}.")
        guide = np.eye(len(classes))[numbers] - 1 / len(classes)
        likelihood: Likelihood = Bernoulli() if len(classes) == 2 else Categorical(len(classes))
        outputs = 1 if len(classes) == 2 else len(classes)
        inputs = self._first_inputs(x, counts)
        self._fit_all(inputs, self._targets(numbers), counts, guide, numbers, likelihood, outputs, checkpoint)
        self.doubt_ = None

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
        self.architecture_, self.network_scores_, self._is_left_to_another = "given", None, False
        if self.net is not None or not self.learn or x.ndim > 2 or len(x) < FEWEST_ROWS:
            return kernel, self.options
        line = self._on_table(Linear(1.0 / self._relevances(x), 0.1))
        learned = {"learned": kernel, "learned + linear": kernel + line}
        candidates = {name: self._on_table(net) for name, net in plain_networks().items()} | learned
        gaussian = ScaleMixture(kernel, InverseGamma(2.0, 2.0), ScaledNoise(noise))
        found = choose_for_classes(
            candidates, likelihood, x, y, labels, counts, self._seed, list(learned), gaussian=gaussian
        )
        self.architecture_, self.network_scores_ = found.name, found.scores
        self._is_left_to_another = self._may_be_left and found.prefers_one_hot
        options = TrainingOptions() if self.options is None else self.options
        if self.prior is None and options.scale == "bound" and options.optimiser != "adam":
            options = dataclasses.replace(options, scale=found.scale)
        return candidates[found.name], options

    def _learned(self) -> dict[str, Any]:
        return super()._learned() | ({} if self.doubt_ is None else {"doubt_": self.doubt_})

    def _restore(self, learned: dict[str, Any]) -> None:
        self.doubt_ = learned.pop("doubt_", None)
        if not isinstance(self.doubt_, Doubt | None):
            raise ValueError(f"doubt_ is {self.doubt_!r}")
        self.architecture_, self.network_scores_ = None, None
        super()._restore(learned)

    def _numbers(self, y: np.ndarray) -> np.ndarray:
        """Class numbers; a ValueError for labels that are not among the classes."""
        numbers = np.minimum(np.searchsorted(self.classes_, y), len(self.classes_) - 1)
        unknown = self.classes_[numbers] != y
        if np.any(unknown):
            raise ValueError(f"y must hold labels among classes_, {self.classes_!r}; got {y[unknown][0]!r}.")
        return numbers

    def _targets(self, numbers: np.ndarray) -> np.ndarray:
        return numbers[:, None].astype(np.float64) if len(self.classes_) == 2 else numbers

    def class_probabilities(self, X: Any) -> ClassProbabilities:
        """Probabilities, entropy and mutual information together, at the cost of one of them.

        Doubt, where it was learned, is in the probabilities of classes without rows and in the entropy; the mutual
        information is that of the latent functions alone.
        """
        found, doubt = self._with_doubt(X)
        if self.doubt_ is None or doubt is None or not np.any(self.doubt_.is_unseen):
            return found
        p = self.doubt_.applied(found.probabilities, doubt)
        return ClassProbabilities(p, -np.sum(xlogy(p, p), axis=1), found.mutual_information)

    def doubts(self, X: Any) -> np.ndarray:
        """The probability that each input is of a class that training had no rows of, shape (m,); needs `doubt_`.

        It was learned where a tenth of the rows were of a hidden class, and then lowered until it costs next to
        nothing: a score to rank inputs by, rather than a frequency.
        """
        found = self._with_doubt(X)[1]
        if found is None:
            raise ValueError("doubts needs a model with doubt=True, three classes and 300 rows or more.")
        return found

    def _with_doubt(self, X: Any) -> tuple[ClassProbabilities, np.ndarray | None]:
        x = self._new_inputs(X)
        if self.doubt_ is None:
            return self.model_.class_probabilities(x, seed=self._seed), None
        return self.doubt_.predict(self.model_, x, seed=self._seed)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities, integrated over latent functions and scale, shape (m, classes)."""
        return self.class_probabilities(X).probabilities

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of class probabilities, shape (m, classes); the error at 1e-6 is below 0.01 nats."""
        return np.log(np.maximum(self.predict_proba(X), np.finfo(np.float64).tiny))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class."""
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]

    def predict_dist(self, X: Any) -> Predictive:
        """The predictive distribution of the latent functions, shape (m, classes), or (m, 1) for two classes."""
        x = self._new_inputs(X)
        return self.model_.f(x)

    def entropy(self, X: Any) -> np.ndarray:
        """Entropy of the class probabilities, in nats: an out-of-distribution score."""
        return self.class_probabilities(X).entropy

    def mutual_information(self, X: Any) -> np.ndarray:
        """The part of the entropy that is about the latent functions and their scale, in nats."""
        return self.class_probabilities(X).mutual_information

    def log_score(self, X: Any, y: Any) -> float:
        """Mean over rows of the log probability of the label; higher is better."""
        columns = self._numbers(np.asarray(y))
        return float(np.mean(self.predict_log_proba(X)[np.arange(len(columns)), columns]))
