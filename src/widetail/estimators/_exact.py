"""What the exact estimators share: inputs, architecture, learning, conditioning."""

import numbers
from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from widetail.checks import check_count
from widetail.estimators._architecture import candidates_for_few_rows, default_networks
from widetail.estimators._files import SavedEstimator
from widetail.estimators._frames import TableInputs
from widetail.estimators._inputs import check_input_shape, per_feature
from widetail.estimators._scaling import Scaling
from widetail.kernels import Anova, Kernel, available_memory
from widetail.learning import (
    Choice,
    EvidenceFit,
    Integrated,
    Learned,
    NoiseChoice,
    NoiseName,
    WeightedPosterior,
    integrate_evidence,
    learn,
    with_noise_of_kind,
)
from widetail.priors import InverseGamma
from widetail.process import (
    IndependentNoise,
    InferredNoisePosterior,
    InputNoise,
    Noise,
    Posterior,
    RowNoise,
    ScaledNoise,
    ScaleMixture,
)
from widetail.tables import for_table

KINDS = {"scaled": ScaledNoise, "independent": IndependentNoise}
# Where there are so many times the rows of `integrate_rows`, the best architecture alone is integrated.
MORE_ROWS_FOR_ONE = 3
DRAWS_OF_ONE = 64
GAIN_OF_ONE = 0.01  # nats, by a step: its optimum has been learned, and moves a little under the priors
# n x n matrices that are held at once.
MATRICES = {ScaledNoise: 1.3, IndependentNoise: 3.3, RowNoise: 3.3, InputNoise: 6.3}


class ExactEstimator(TableInputs, SavedEstimator):
    """Base of the estimators with exact inference; not for direct use."""

    _numbers_stay = True

    process_: ScaleMixture
    posterior_: Posterior
    architecture_: str
    choice_: Choice | None
    verbose: bool
    evidence_fit_: EvidenceFit | None
    noise_choice_: NoiseChoice | None
    integrated_: Integrated | None
    weighted_posterior_: WeightedPosterior | None
    _kept = ("architecture_", "process_")

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
        integrate_rows: int = 200,
        start: Any = None,
    ):
        self.start = start
        self.net = net
        self.prior = prior
        self.noise = noise
        self.learn = learn
        self.standardise = standardise
        self.choose_rows = choose_rows
        self.learn_rows = learn_rows
        self.max_iterations = max_iterations
        self.random_state = random_state
        self.integrate_rows = integrate_rows

    def _check_parameters(self) -> None:
        for name in ("choose_rows", "learn_rows", "max_iterations"):
            check_count(name, getattr(self, name))
        if not isinstance(self.random_state, numbers.Integral):
            raise ValueError(f"random_state must be an integer; got {self.random_state!r}.")
        if not isinstance(self.integrate_rows, numbers.Integral) or self.integrate_rows < 0:
            raise ValueError(f"integrate_rows must be an integer, zero or more; got {self.integrate_rows!r}.")
        if self.start is not None and not isinstance(self.start, (ScaleMixture, Integrated)):
            raise ValueError(
                f"start must be a process in standard units, such as process_ of a fitted model, or None; "
                f"got {self.start!r}. Of a fitted model, model.as_given() is an estimator with its start."
            )

    def _noise(self) -> Noise:
        """The noise from which learning starts."""
        if isinstance(self.noise, (ScaledNoise, IndependentNoise)):
            return self.noise
        if not isinstance(self.noise, str) or self.noise not in KINDS:
            raise ValueError(
                f"noise must be 'scaled', 'independent', wt.ScaledNoise(...) or wt.IndependentNoise(...); "
                f"got {self.noise!r}."
            )
        return KINDS[self.noise](0.05)

    def _kind_of_noise(self) -> NoiseName | Literal["auto"] | None:
        """What replaces it before learning; None for nothing."""
        return None

    def as_given(self, learn: bool = False) -> Any:
        """An estimator that is not fitted, and begins where this fitted one ended: for cross-validation.

        `cross_val_score(model.as_given(), X, y)` learns nothing anew and conditions on the rows of each fold: one or
        some dozens of factorisations. With `learn` each fold goes on learning from there, which is a warm start. What
        was learned has seen all rows: such scores are a little better than those of folds that learn by themselves,
        from what few numbers can tell. What a target is, and how frames are read, stays too.

        Args:
            learn: whether its `fit` learns, from where this model ended; architectures are not compared, nor
                hyperparameters integrated.

        Example:
            >>> import numpy as np, widetail as wt
            >>> from sklearn.model_selection import cross_val_score
            >>> x = np.linspace(-2.0, 2.0, 40)[:, None]
            >>> y = np.sin(3.0 * x[:, 0])
            >>> model = wt.ScaleMixtureRegressor(net=wt.kernels.RBF()).fit(x, y)
            >>> bool(cross_val_score(model.as_given(), x[::-1], y[::-1], cv=4).mean() > 0.5)
            True
        """
        check_is_fitted(self, "posterior_")
        start = self.process_ if learn or self.integrated_ is None else self.integrated_
        copy: Any = clone(self)
        given = copy.set_params(start=start, learn=learn)
        # scikit-learn's own way to say that a clone keeps what was fitted
        return given if self.table_ is None else given.set_params(table=FrozenEstimator(self.table_))

    def _processes(self, features: int, rows: int | None) -> dict[str, ScaleMixture]:
        if self.start is not None:
            return {"given": self.start.best if isinstance(self.start, Integrated) else self.start}
        networks = self._networks(features, rows) if self.net is None else {"given": self.net}
        return {name: self._process(net) for name, net in networks.items()}

    def _networks(self, features: int, rows: int | None) -> dict[str, Kernel]:
        """Those to choose from."""
        return default_networks(features, rows)

    def _networks_for_few(self, features: int) -> dict[str, Kernel]:
        """Those to average where rows are few."""
        return candidates_for_few_rows(features)

    def _process(self, net: Any) -> ScaleMixture:
        # A smooth function of a feature is a small part of a large one: its readout variance may be thousands.
        default = InverseGamma(0.5, 0.5) if isinstance(net, Anova) else InverseGamma(2.0, 2.0)
        return ScaleMixture(self._on_table(net), default if self.prior is None else self.prior, self._noise())

    def _costliest_noise(self) -> type:
        """Of those that may be learned, for the memory that it needs."""
        return type(self._noise())

    def _sums_are_candidates(self) -> bool:
        """Whether sums of functions of few features are among the default architectures."""
        return False

    def _integrate(self, x: np.ndarray, y: np.ndarray, counts: np.ndarray) -> None:
        """Condition many processes, weighted, in place of the best one."""
        candidates = {name: self._process(net) for name, net in self._networks_for_few(self._relevances(x)).items()}
        shared = {"max_iterations": self.max_iterations, "seed": int(self.random_state), "counts": counts}
        noise, weights = None, None
        if self._kind_of_noise() is not None or isinstance(self.noise, (RowNoise, InputNoise)):
            # the noise of the rows is that of the best process; all others are integrated given it
            learned = learn(candidates, x, y, noise=self._kind_of_noise(), **shared)
            self.noise_choice_, noise = learned.noise_choice, learned.process.noise
            posterior = learned.process.posterior(x, y, counts=counts)
            weights = posterior.noise_weights if isinstance(posterior, InferredNoisePosterior) else None
            candidates = {name: with_noise_of_kind(one, "constant", x) for name, one in candidates.items()}
        found = integrate_evidence(
            candidates, x, y, noise_weights=weights, progress=bool(self.verbose), **shared
        ).with_noise(noise)
        self._predict_with(found, x, y, counts)

    @property
    def _mixture(self) -> WeightedPosterior | Posterior:
        """What predicts: all weighted processes, or the one that there is."""
        check_is_fitted(self, "posterior_")
        return self.posterior_ if self.weighted_posterior_ is None else self.weighted_posterior_

    def _learn_and_condition(self, x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> None:
        """Choose, learn and condition on standardised data; sets the attributes of a fitted estimator."""
        rows = np.flatnonzero(weights > 0)
        x, y, counts = x[rows], y[rows], weights[rows]
        vars(self).pop("_with_gaps", None)  # of earlier rows
        self._check_memory(len(y))
        self.x_scaling_ = self._scaling(x, counts)
        x = self.x_scaling_.apply(x)
        self._forget()
        if isinstance(self.start, Integrated) and not self.learn:
            self._predict_with(self.start, x, y, counts)
            return
        chooses = self.learn and self.net is None and self.start is None
        if chooses and len(y) <= self.integrate_rows:
            self._integrate(x, y, counts)
            return
        processes = self._processes(self._relevances(x), len(y) if self._sums_are_candidates() else None)
        if self.learn:
            learned = learn(
                processes,
                x,
                y,
                noise=self._kind_of_noise(),
                counts=counts,
                choose_rows=self.choose_rows,
                learn_rows=self.learn_rows,
                max_iterations=self.max_iterations,
                seed=int(self.random_state),
                progress=bool(self.verbose),
            )
        else:
            kind = self._kind_of_noise()
            learned = Learned.as_given({name: with_noise_of_kind(one, kind, x) for name, one in processes.items()})
        self.choice_, self.evidence_fit_, self.noise_choice_ = learned.choice, learned.fit, learned.noise_choice
        self.architecture_, self.process_ = learned.name, learned.process
        most = MORE_ROWS_FOR_ONE * self.integrate_rows
        if chooses and isinstance(learned.process.noise, ScaledNoise) and len(y) <= most:
            best = {learned.name: learned.process}
            options = {"max_iterations": self.max_iterations, "seed": int(self.random_state), "counts": counts}
            tolerance = GAIN_OF_ONE / float(np.sum(counts))
            found = integrate_evidence(best, x, y, smooth=False, draws=DRAWS_OF_ONE, tolerance=tolerance, **options)
            self._predict_with(found, x, y, counts)
            return
        self.posterior_ = learned.process.posterior(x, y, counts=counts)

    def _predict_with(self, found: Integrated, x: np.ndarray, y: np.ndarray, counts: np.ndarray) -> None:
        """Condition all weighted processes."""
        self.integrated_ = found
        self.weighted_posterior_ = found.posterior(x, y, counts=counts)
        self.architecture_, self.process_ = found.names[0], found.processes[0]
        self.posterior_ = self.weighted_posterior_.posteriors[0]

    def _forget(self) -> None:
        """What only some fits set, and files do not hold."""
        self.choice_, self.evidence_fit_, self.noise_choice_ = None, None, None
        self.integrated_, self.weighted_posterior_ = None, None

    def _inputs(self, x: Any, y: Any, **options: Any) -> tuple[np.ndarray, np.ndarray]:
        """Training data, checked: a table, or with a network of the user's own, sequences or images."""
        return self._checked(x, y, allow_nd=self.net is not None, **options)

    def _scaling(self, x: np.ndarray, counts: np.ndarray) -> Scaling:
        """One shift and factor per feature, for all positions of a sequence or pixels of an image alike."""
        if self._is_encoded or not self.standardise:
            return Scaling.identity(x.shape[-1])
        return per_feature(x, counts, self.net)

    def _check_memory(self, n: int) -> None:
        needed, free = MATRICES[self._costliest_noise()] * 8.0 * n * n, available_memory()
        if needed > free:
            raise MemoryError(
                f"Exact inference on {n} rows needs about {needed / 1e9:.3g} GB, but {free / 1e9:.3g} GB is free. "
                f"Fit a random subset of the rows, or use a sparse model (wt.SparseMixtureRegressor, "
                f"wt.SparseMixtureClassifier), whose memory grows with n and not with its square."
            )

    def _new_inputs(self, x: Any) -> np.ndarray:
        check_is_fitted(self, "posterior_")
        expected = np.shape(self.posterior_.x)[1:]
        if len(expected) > 1:  # scikit-learn would call the height of images their number of features
            check_input_shape(np.shape(x), expected)
        x = self._new_checked(x, allow_nd=self.net is not None)
        if x.shape[1:] == expected:
            return self.x_scaling_.apply(x)
        if self.table_ is None or self._is_encoded:
            check_input_shape(x.shape, expected)
        assert self.table_ is not None  # what does not fit an array alone has been refused
        known = len(self.table_.places_)  # the first gaps of a model of complete rows
        return np.concatenate([self.x_scaling_.apply(x[:, :known]), x[:, known:] / self.x_scaling_.factor], axis=1)

    def _mixture_at(self, x: np.ndarray) -> "WeightedPosterior | Posterior":
        """What predicts at rows in standard units: with gaps, the same processes conditioned anew, once."""
        if x.shape[1:] == np.shape(self.posterior_.x)[1:]:
            return self._mixture
        if not hasattr(self, "_with_gaps"):
            self._with_gaps = self._conditioned_with_gaps()
        return self._with_gaps

    def _conditioned_with_gaps(self) -> "WeightedPosterior | Posterior":
        assert self.table_ is not None
        places, posterior = self.table_.places_, self.posterior_
        x = np.concatenate([posterior.x, np.zeros((len(posterior.x), max(places) + 1))], axis=1)
        counts = None if np.all(posterior.rows.counts == 1) else posterior.rows.counts

        def condition(process: ScaleMixture) -> Posterior:
            if not isinstance(process.kernel, Kernel):
                raise ValueError("X has missing cells, which a net that is a function cannot take; use a kernel.")
            there = ScaleMixture(
                for_table(process.kernel, places),
                process.prior_scale,
                process.noise,
                scale_sharing=process.scale_sharing,
            )
            return there.posterior(x, posterior.y, counts=counts)

        if self.integrated_ is None:
            return condition(self.process_)
        return WeightedPosterior([condition(one) for one in self.integrated_.processes], self.integrated_.weights)

    def _learned(self) -> dict[str, Any]:
        posterior = self.posterior
        learned = {"x": np.asarray(posterior.x), "y": posterior.y, "counts": posterior.rows.counts}
        if self.integrated_ is None:
            return learned
        return learned | {"integrated": self.integrated_}

    def _restore(self, learned: dict[str, Any]) -> None:
        """Condition again, which gives the same numbers and keeps files small."""
        x, y, counts = (learned[name] for name in ("x", "y", "counts"))
        self._check_memory(len(y))
        if not self._fits_inputs(x.shape) or x.shape[-1] != len(self.x_scaling_.shift):
            raise ValueError(f"x of shape {x.shape} does not fit {self.n_features_in_} features")
        self._forget()
        self.integrated_ = learned.get("integrated")  # files of earlier versions have none
        counts = None if np.all(counts == 1) else counts
        if self.integrated_ is None:
            self.posterior_ = self.process_.posterior(x, y, counts=counts)
            return
        if not isinstance(self.integrated_, Integrated):
            raise ValueError(f"integrated is {self.integrated_!r}")
        self.weighted_posterior_ = self.integrated_.posterior(x, y, counts=counts)
        self.posterior_ = self.weighted_posterior_.posteriors[0]

    @property
    def posterior(self) -> Posterior:
        """The fitted posterior, in standard units."""
        check_is_fitted(self, "posterior_")
        return self.posterior_
