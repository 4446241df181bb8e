"""Classification by regression on one-hot targets, as a scikit-learn estimator."""

from typing import Any, Literal

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from widetail.estimators._architecture import networks_for_classes
from widetail.estimators._exact import ExactEstimator
from widetail.estimators._inputs import check_weights
from widetail.estimators._probabilities import best_temperature, probability_of_largest
from widetail.files import savable
from widetail.kernels import Kernel
from widetail.learning import WeightedPosterior
from widetail.predictive import Elliptical, Predictive
from widetail.process import Posterior

Probabilities = Literal["softmax", "largest"]


@savable("estimators.ScaleMixtureClassifier")
class ScaleMixtureClassifier(ClassifierMixin, ExactEstimator):
    """Classification with an infinitely wide network, by exact regression on one-hot targets.

    That is the Gaussian-likelihood classification of the paper. It needs no approximation, and for many classes and
    rows it is accurate, but its probabilities come from a model of numbers, not of classes: the sparse classifier
    has a likelihood for them.

    Args:
        net, prior, noise, learn: as in `ScaleMixtureRegressor`.
        choose_rows, learn_rows, max_iterations, random_state, verbose, table, start: as there.
        integrate_rows: with at most so many rows, and no `net` of the user's own, candidates are averaged and their
            hyperparameters integrated out, as there; 0 for never.
        standardise: whether to standardise the inputs.
        probabilities: "softmax" of the locations, with a temperature fitted to leave-one-out predictions, or "largest":
            the probability, under the predictive distribution, that a class has the largest output, with one more
            row that is of any class: none is zero.

    Attributes:
        classes_: the labels.
        temperature_: the fitted factor of "softmax".
        process_, posterior_, architecture_, choice_, evidence_fit_, integrated_, weighted_posterior_, table_: as in
            `ScaleMixtureRegressor`.

    Example:
        >>> import numpy as np
        >>> import widetail as wt
        >>> x = np.random.default_rng(0).normal(size=(60, 2))
        >>> model = wt.ScaleMixtureClassifier(net=wt.nn.mlp(2)).fit(x, x[:, 0] > 0)
        >>> model.predict(np.array([[2.0, 0.0], [-2.0, 0.0]])).tolist()
        [True, False]
    """

    classes_: np.ndarray
    temperature_: float
    _kept = ("classes_", "temperature_")

    def __init__(
        self,
        net: Any = None,
        prior: Any = None,
        noise: Any = "scaled",
        learn: bool = True,
        standardise: bool = True,
        choose_rows: int = 1000,
        learn_rows: int = 3000,
        max_iterations: int = 60,
        random_state: int = 0,
        probabilities: Probabilities = "softmax",
        verbose: bool = False,
        table: Any = None,
        integrate_rows: int = 200,
        start: Any = None,
    ):
        exact = (net, prior, noise, learn, standardise, choose_rows, learn_rows, max_iterations, random_state)
        super().__init__(*exact, integrate_rows, start)
        self.probabilities = probabilities
        self.verbose = verbose
        self.table = table

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "ScaleMixtureClassifier":
        """Choose, learn and condition.

        Args:
            X: inputs, as in `ScaleMixtureRegressor.fit`.
            y: labels, shape (n,), of any kind.
            sample_weight: a row of weight w counts as w equal observations.
        """
        self._check_parameters()
        if self.probabilities not in ("softmax", "largest"):
            raise ValueError(f"probabilities must be 'softmax' or 'largest'; got {self.probabilities!r}.")
        x, y = self._inputs(X, y)
        check_classification_targets(y)
        weights = check_weights(sample_weight, x)
        seen = weights > 0
        self.classes_, labels = np.unique(y[seen], return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y must hold at least two classes; it has only one class, {self.classes_.tolist()[0]!r}.")
        targets = np.zeros((len(x), len(self.classes_)))
        targets[seen] = np.eye(len(self.classes_))[labels] - 1 / len(self.classes_)
        self._learn_and_condition(x, targets, weights)
        self.temperature_ = best_temperature(self._mixture.left_out().location, labels, weights[seen])
        return self

    def _networks(self, features: int, rows: int | None) -> dict[str, Kernel]:
        return networks_for_classes(features)

    def _networks_for_few(self, features: int) -> dict[str, Kernel]:
        return super()._networks_for_few(features) | {"linear": networks_for_classes(features)["linear"]}

    def predict_dist(self, X: Any) -> Predictive:
        """The predictive distribution of the centred one-hot targets, shape (m, classes)."""
        x = self._new_inputs(X)
        return self._mixture_at(x)(x)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities, shape (m, classes)."""
        x = self._new_inputs(X)
        if self.probabilities == "softmax":
            return softmax(self.temperature_ * self._mixture_at(x).location(x), axis=1)
        mixture = self._mixture_at(x)
        if isinstance(mixture, WeightedPosterior):
            parts = [_probability_of_largest(posterior, x) for posterior in mixture.posteriors]
            p = np.tensordot(mixture.weights, parts, 1)
        else:
            p = _probability_of_largest(mixture, x)
        rows = self.posterior.rows.observations
        return (rows * p + 1 / p.shape[1]) / (
            rows + 1
        )  # one more row, of any class: no finite sample makes one certain

    def predict(self, X: Any) -> np.ndarray:
        """The class with the largest location."""
        x = self._new_inputs(X)
        return self.classes_[np.argmax(self._mixture_at(x).location(x), axis=1)]

    def log_score(self, X: Any, y: Any) -> float:
        """Mean over rows of the log probability of the label; higher is better."""
        columns = np.searchsorted(self.classes_, y)
        p = self.predict_proba(X)[np.arange(len(columns)), columns]
        return float(np.mean(np.log(p)))


def _probability_of_largest(posterior: Posterior, x: np.ndarray) -> np.ndarray:
    dist = posterior.f(x)
    scales, log_weights = (np.asarray(part) for part in posterior.scale.nodes())
    if isinstance(dist, Elliptical):
        std = np.sqrt(scales[:, None] * np.asarray(dist.dispersion))
        return probability_of_largest(np.asarray(dist.loc), std, log_weights)
    raise ValueError("probabilities='largest' needs noise='scaled', for which the location does not depend on it.")
