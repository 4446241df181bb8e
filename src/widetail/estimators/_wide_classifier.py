"""Classification with an ensemble of finite networks, as a scikit-learn estimator."""

from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from widetail.estimators._files import PATHS
from widetail.estimators._wide import WideEnsemble
from widetail.files import savable


@savable("estimators.WideEnsembleClassifier", without=PATHS)
class WideEnsembleClassifier(ClassifierMixin, WideEnsemble):
    """An ensemble of finite networks, each with a readout scale of its own, trained on the cross-entropy.

    Probabilities are the mean of the members' probabilities. What a random scale changes is how confident a member
    is where the data say little: members with a large readout variance start with large random outputs there.

    Args:
        net: a network of `widetail.nn`; by default two hidden layers for tables, and for images (n, height, width) or
            (n, height, width, channels) four convolutions, of which the first and the third have strides 2.
        prior: prior of the readout variance; InverseGamma(2, 2) by default, PointMass(1.0) for a plain ensemble.
        members: number of networks.
        width: entries (channels) of each hidden layer.
        learning_rate: of Adam.
        batch_size: rows per step.
        max_epochs: most passes through the data.
        early_stopping: whether to hold out rows and keep the parameters that are best on them.
        validation_fraction: share of rows that each member holds out; half of them are those of the member before.
        patience: epochs without improvement after which a member has finished.
        standardise: whether to standardise inputs: per column of a table, all pixels of images alike.
        readout: "scaled" trains u of the readout weights sqrt(beta) u, "direct" the weights themselves.
        parametrisation: "ntk" or "standard".
        checkpoint: a file to write after every epoch and to resume from.
        random_state: an integer seed; the same seed gives the same model bit for bit.
        verbose: whether to show a progress bar.
        table: how frames are read, a `TableEncoder`; None for its defaults. One that is fitted stays as
            it is. The gaps of missing cells are features.

    Attributes:
        classes_: the labels.
        scales_: readout variance of each member.
        parameters_: parameters of all members, with an axis of members in front.
        history_: losses per epoch and member, as an `EnsembleFit`; None in a loaded model.
        net_, network_: the architecture.

    Example:
        >>> import numpy as np
        >>> import widetail as wt
        >>> x = np.random.default_rng(0).normal(size=(80, 2))
        >>> model = wt.WideEnsembleClassifier(members=2, width=16, max_epochs=30).fit(x, x[:, 0] > 0)
        >>> model.predict(np.array([[2.0, 0.0], [-2.0, 0.0]])).tolist()
        [True, False]
    """

    classes_: np.ndarray
    _kept = ("classes_",)

    def fit(self, X: Any, y: Any, *, classes: Any = None) -> "WideEnsembleClassifier":
        """Train all members.

        Args:
            X: inputs, shape (n, d), or images (n, height, width[, channels]).
            y: labels, shape (n,), of any kind.
            classes: all labels there are, when `y` may lack some of them; by default those of `y`. A class without
                rows gets the probability that its untrained output leaves it.
        """
        self._check_parameters()
        x, y = (np.asarray(part) for part in self._checked(X, y, allow_nd=True))
        check_classification_targets(y)
        self.classes_, labels = _class_numbers(y, classes)
        self._train(self._first_inputs(x), labels, "cross_entropy", len(self.classes_), self._key())
        return self

    def member_probabilities(self, X: Any) -> np.ndarray:
        """Class probabilities of every member, shape (members, m, classes)."""
        return softmax(self._outputs(X), axis=-1)

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities: the mean over members, shape (m, classes)."""
        return self.member_probabilities(X).mean(axis=0)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class."""
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]

    def log_score(self, X: Any, y: Any) -> float:
        """Mean over rows of the log probability of the label; higher is better."""
        columns = np.searchsorted(self.classes_, y)
        p = self.predict_proba(X)[np.arange(len(columns)), columns]
        return float(np.mean(np.log(p)))


def _class_numbers(y: np.ndarray, classes: Any) -> tuple[np.ndarray, np.ndarray]:
    """All labels in order, and the place of each row's label among them."""
    labels = np.unique(y if classes is None else np.asarray(classes))
    if len(labels) < 2:
        name = "y" if classes is None else "classes"
        raise ValueError(f"{name} must hold at least two classes; it has only one class, {labels.tolist()[0]!r}.")
    unknown = np.setdiff1d(y, labels)
    if len(unknown):
        raise ValueError(f"y has labels that classes does not list: {unknown[:5].tolist()}; add them to classes.")
    return labels, np.searchsorted(labels, y)
