"""Regression with a scale mixture, as a scikit-learn estimator."""

from typing import Any, Literal

import jax
import numpy as np

from widetail.checks import check_count
from widetail.estimators._dependence import Dependence, dependence_of
from widetail.estimators._effects import Features, effect_of
from widetail.estimators._exact import KINDS, ExactEstimator
from widetail.estimators._explained import Support, relevances_of, support_of, unusual_rows_of
from widetail.estimators._guarantees import GroupsOrColumn, IntervalMethod, check_method, guaranteed_interval
from widetail.estimators._inputs import check_weights
from widetail.estimators._predicting import PredictiveRegressor
from widetail.estimators._scaling import Scaling, check_reach
from widetail.estimators._tails import Tails
from widetail.estimators._targets import TARGETS, Target, recognise
from widetail.files import savable
from widetail.learning import NoiseName
from widetail.predictive import Predictive
from widetail.process import InputNoise, InputPosterior, Noise, RowNoise, RowPosterior, ScaledNoise

INFERRED = ("rows", "inputs", "both", "auto")  # noises that replace a constant one


@savable("estimators.ScaleMixtureRegressor")
class ScaleMixtureRegressor(PredictiveRegressor, ExactEstimator):
    """Regression with an infinitely wide network whose readout variance has a prior: a Student-t process by default.

    With no arguments it standardises, chooses between a few architectures by their evidence, learns their
    hyperparameters (one relevance per feature among them), and conditions exactly on all rows. It needs memory for
    one n x n matrix and time for its Cholesky factorisation. With 200 rows or fewer nothing is chosen: architectures
    are averaged and hyperparameters integrated out (see `integrate_rows`).

    Args:
        net: a network of `widetail.nn`, a kernel, or a function k(x1, x2); None to choose one.
        prior: prior of the readout variance in units of the standardised targets; by default InverseGamma(2, 2) for
            networks and InverseGamma(0.5, 0.5) for sums of functions of few features, whose readout variance may be
            thousands. PointMass(1.0) gives a plain Gaussian process.
        noise: what targets scatter like around the function:

            - "scaled": one variance, inside the scale (fast), or "independent": outside of it, ordinary Gaussian noise;
            - "rows": a scale for every row, so that outliers do not pull (`wt.RowNoise`; `outliers` names them);
            - "inputs": a variance that depends on the input (`wt.InputNoise`), or "both";
            - "auto": "scaled", "rows", "inputs" or "both", the simplest that predicts left-out rows as well as any;
            - or a noise object, whose variance is where learning starts.

            A fit with "rows" takes about six times as long as one with "scaled", with "both" eight times, with "inputs"
            twice as long, and eight times where there are outliers.
        learn: whether to learn hyperparameters by evidence; False takes them as given.
        standardise: whether to standardise inputs and targets.
        choose_rows: rows of the random subset on which architectures are compared.
        learn_rows: rows of the random subset from which hyperparameters are learned; conditioning uses all rows.
        max_iterations: of each optimisation.
        random_state: an integer seed.
        calibrate: whether to measure, on rows that are left out one at a time, how wide the scatter around the
            predictions is and how heavy its tails are, and to predict with those (see `predictive.Recalibrated`);
            False gives the predictive distribution of the process itself. Costs one more factorisation. Where the
            measured tails are very heavy (two degrees of freedom or fewer), standard deviations are infinite; use
            intervals and quantiles.
        verbose: whether to show progress bars on a terminal.
        integrate_rows: with at most so many rows, and no `net` of the user's own, hyperparameters are integrated out
            under the priors of `widetail.learning.HYPERPRIORS` and candidates averaged by their evidence (see
            `widetail.learning.integrate_evidence`): sums of functions of single features, of pairs of features and of
            any of them, and a relu network. With up to three times as many, the best architecture is chosen, and its
            hyperparameters integrated. Predictions are then those of some dozens of processes. 0 for never.
        target: what y can be: "real"; "positive", for which a map to the real line (a logarithm of small values,
            nothing for large ones) is chosen by the evidence, with its Jacobian; "bounded", strictly between 0 and 1,
            with log odds; "integer", whose predictive distribution has probabilities of whole numbers; "auto"
            finds out: maps must be worth three nats, whole numbers be few. A target of no such kind is bent where that
            is worth five (`predictive.BentWarp`): many functions are a sum of simpler ones after it. Where rows have
            scales of their own, maps are compared on those that are no outliers. Several outputs, and `learn=False` or
            `standardise=False`, are "real" unless said otherwise. `target_` of a fitted model is taken as it is.
        table: how frames are read, a `TableEncoder`; None for its defaults. One that is fitted stays.
        start: a process in standard units, such as `process_` of a fitted model: where learning begins, or what is
            conditioned with `learn=False`, in place of `net`, `prior` and `noise`. See `as_given`.

    Attributes:
        process_: the `ScaleMixture` that was learned, in standard units; that of the largest weight of several.
        posterior_: its posterior.
        integrated_: weights, evidences and effective numbers of draws, where hyperparameters were integrated; else
            None.
        weighted_posterior_: what then predicts; else None.
        architecture_: which default architecture was chosen, or "given".
        tails_: what was measured (None without `calibrate`).
        choice_, evidence_fit_: what was compared and learned (None where nothing was).
        target_: what y was taken for, and the map; `target_.describe()` says it in words.
        table_: of a model that was fitted to a frame, the fitted `TableEncoder`; else None.
        noise_choice_: how the kinds of noise compared, with noise="auto".
        n_features_in_, feature_names_in_: as in scikit-learn.

    Example:
        >>> import numpy as np
        >>> import widetail as wt
        >>> x = np.linspace(-2.0, 2.0, 40)[:, None]
        >>> model = wt.ScaleMixtureRegressor(net=wt.nn.mlp(2, "erf")).fit(x, np.sin(3.0 * x[:, 0]))
        >>> lower, upper = model.predict_interval(np.array([[0.5]]), coverage=0.9)
        >>> bool(lower[0] < np.sin(1.5) < upper[0])
        True
    """

    y_scaling_: Scaling
    tails_: Tails | None
    target_: Target = Target()  # files of earlier versions have none
    _kept = ("y_scaling_", "tails_")

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
        calibrate: bool = True,
        verbose: bool = False,
        integrate_rows: int = 200,
        table: Any = None,
        target: Any = "auto",
        start: Any = None,
    ):
        exact = (net, prior, noise, learn, standardise, choose_rows, learn_rows, max_iterations, random_state)
        super().__init__(*exact, integrate_rows, start)
        self.calibrate = calibrate
        self.verbose = verbose
        self.table = table
        self.target = target

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if not isinstance(self.target, Target) and self.target not in TARGETS:
            raise ValueError(
                f"target must be one of {', '.join(map(repr, TARGETS))}, or target_ of a fitted model; "
                f"got {self.target!r}."
            )
        kind = self._kind_of_noise()
        if kind == "auto" and not self.learn:
            raise ValueError("noise='auto' is chosen by learning: name a kind of noise, or leave learn at True.")

    def _noise(self) -> Noise:
        if isinstance(self.noise, (RowNoise, InputNoise)):
            return self.noise
        if self._kind_of_noise() is not None:
            return ScaledNoise(0.05)
        if isinstance(self.noise, str) and self.noise not in KINDS:
            raise ValueError(
                f"noise must be one of {', '.join(map(repr, (*KINDS, *INFERRED)))}, or a noise object such as "
                f"wt.RowNoise(...); got {self.noise!r}."
            )
        return super()._noise()

    def _kind_of_noise(self) -> NoiseName | Literal["auto"] | None:
        return self.noise if isinstance(self.noise, str) and self.noise in INFERRED else None

    def _costliest_noise(self) -> type:
        kind = self._kind_of_noise()
        return type(self._noise()) if kind is None else RowNoise if kind == "rows" else InputNoise

    def _sums_are_candidates(self) -> bool:
        return True

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "ScaleMixtureRegressor":
        """Choose, learn and condition.

        Args:
            X: inputs, shape (n, d): a frame of pandas or polars with numbers, booleans, categories, texts, dates and
                missing cells, or an array. With a `net` for them, also sequences (n, time, features) or images
                (n, height, width, channels).
            y: targets, shape (n,) or (n, outputs), in any units.
            sample_weight: a row of weight w counts as w equal observations.
        """
        self._check_parameters()
        vars(self).pop("_cross_fits", None)  # of earlier rows
        x, y = self._inputs(X, y, y_numeric=True, multi_output=True)
        y = y.astype(np.float64)
        weights = check_weights(sample_weight, x)
        seen = weights > 0
        if self.standardise and self._expects_outliers():
            check_reach(y, weights)
        self.target_ = self._recognised(x[seen], y[seen], weights[seen])
        targets = np.where(seen.reshape(-1, *(1,) * (y.ndim - 1)), self.target_.forward(y), 0.0)
        columns = targets.reshape(len(y), -1)
        scaling = self._target_scaling(columns[seen], weights[seen])
        self.y_scaling_ = scaling
        self._learn_and_condition(x, scaling.apply(columns).reshape(y.shape), weights)
        posterior = self.posterior_
        self.tails_ = None
        if self.calibrate:
            # hyperparameters that are integrated out have their say in the width already
            least_width = 0.0 if self.integrated_ is None else 1.0
            fit = self.evidence_fit_ if self.integrated_ is None else None
            learned = 0 if fit is None else len(fit.learned)
            left, counts = self._mixture.left_out(), posterior.rows.counts
            self.tails_ = Tails.measure(posterior.y, left, counts, self._half_a_step, least_width, learned)
        return self

    def as_given(self, learn: bool = False) -> "ScaleMixtureRegressor":
        return super().as_given(learn).set_params(target=self.target_)

    as_given.__doc__ = ExactEstimator.as_given.__doc__

    def _recognised(self, x: np.ndarray, y: np.ndarray, weights: np.ndarray) -> Target:
        """What the target is: real, unless said otherwise, for models that take it as it is."""
        if isinstance(self.target, Target):
            return self.target
        is_plain = not (self.learn and self.standardise)
        kind = "real" if self.target == "auto" and is_plain else self.target
        places = self.table_.places_ if self._is_encoded and self.table_ is not None else None
        x, seed = self._scaling(x, weights).apply(x), int(self.random_state)
        return recognise(kind, x, y, places, seed, has_outliers=self._expects_outliers())

    def _expects_outliers(self) -> bool:
        """Whether the noise that is asked for has scales of single rows."""
        has_own = isinstance(self.noise, InputNoise) and self.noise.rows is not None
        return self._kind_of_noise() in ("rows", "both", "auto") or isinstance(self.noise, RowNoise) or has_own

    def _target_scaling(self, y: np.ndarray, weights: np.ndarray) -> Scaling:
        if not self.standardise:
            return Scaling.identity(y.shape[1])
        return Scaling.robust(y, weights) if self._expects_outliers() else Scaling.of_targets(y, weights)

    def predict_dist(self, X: Any) -> Predictive:
        """The predictive distribution of y, in the units of y."""
        x = self._new_inputs(X)
        dist = self._mixture_at(x)(x)
        return self._in_units(dist if self.tails_ is None else self.tails_.apply(dist))

    def _location(self, X: Any) -> np.ndarray:
        """The mean of the predictive distribution, where that exists, and its median."""
        x = self._new_inputs(X)
        z = self._mixture_at(x).location(x)
        shift, factor = self.y_scaling_.shift, self.y_scaling_.factor
        return self.target_.inverse(z * factor[0] + shift[0] if z.ndim == 1 else z * factor + shift)

    def predict_interval(
        self,
        X: Any,
        coverage: float = 0.9,
        method: IntervalMethod = "predictive",
        groups: GroupsOrColumn = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of intervals that hold y with probability `coverage`.

        The guarantees below are for exchangeable rows, such as independent draws from one distribution, and on average
        over rows; none of them asks for the model to be right. `widetail.conformal` has the details.

        Args:
            X: inputs, as in `fit`.
            coverage: between 0 and 1.
            method: what the promise rests on:

                - "predictive": the model. Central intervals of `predict_dist`, calibrated on left-out rows; right as
                  far as the model is, and no guarantee beyond that.
                - "full": full conformal prediction. At least `coverage`, for a process that was fixed before it saw the
                  rows (`learn=False, standardise=False`). Costs next to nothing more than `predict_dist`.
                - "jackknife+": the same condition and cost; at least `1 - 2 * (1 - coverage)`, and usually `coverage`.
                - "cv+": ten models that learn everything anew, each without a tenth of the rows, so ten times the time
                  of `fit` when first asked for. At least `1 - 2 * (1 - coverage) - sqrt(2 / n)`, usually `coverage` or
                  a little more, **whatever was learned**.

                Where hyperparameters were learned from the same rows, as by default, "full" and "jackknife+" are no
                guarantees in the strict sense: they are close to what they say where rows are many for the numbers that
                were learned, and "cv+" is for where they are not.
            groups: have the guarantee within every group: a column of X whose cells name the groups (its name, or its
                number), or a pair of arrays, labels of the rows that were fitted (those of positive weight) and labels
                of the rows of X. Groups of fewer than `coverage / (1 - coverage)` fitted rows have infinite intervals,
                and a warning names them.

        Returns:
            Two arrays of shape (n,) or (n, outputs), one output at a time.

        Example:
            >>> import numpy as np, widetail as wt
            >>> x = np.linspace(-2.0, 2.0, 40)[:, None]
            >>> process = {"net": wt.kernels.RBF(), "noise": wt.ScaledNoise(0.1), "learn": False, "standardise": False}
            >>> model = wt.ScaleMixtureRegressor(**process).fit(x, np.sin(3.0 * x[:, 0]))
            >>> lower, upper = model.predict_interval(np.array([[0.5]]), coverage=0.9, method="full")
            >>> bool(lower[0] < np.sin(1.5) < upper[0])
            True
        """
        check_method(method, groups)
        if method == "predictive":
            return super().predict_interval(X, coverage)
        return guaranteed_interval(self, self._new_inputs(X), coverage, method, groups)

    def predict_effect(self, X: Any, features: Features) -> Predictive:
        """What a feature, or features together, add to y: one part of a sum of functions, with its uncertainty.

        Effects have mean 0 over the fitted rows, and are in the units of y; where y is mapped (`target_.warp`), in
        those of what it is mapped to. Of several processes those are averaged that have such a part: sums over
        features have none for pairs, networks none at all.

        Args:
            X: inputs, as in `fit`; only the columns of `features` matter.
            features: a name or number, or several, of features that act together.

        Example:
            >>> import numpy as np, widetail as wt
            >>> x = np.random.default_rng(0).uniform(-1.0, 1.0, (40, 2))
            >>> sums = wt.kernels.Anova(order=1)
            >>> model = wt.ScaleMixtureRegressor(net=sums, learn=False).fit(x, 2.0 * x[:, 0] + np.cos(3.0 * x[:, 1]))
            >>> ends = model.predict_effect(np.array([[-1.0, 0.0], [1.0, 0.0]]), 0).median
            >>> bool(3.0 < ends[1] - ends[0] < 5.0)
            True
        """
        factor = self.y_scaling_.factor
        dist = effect_of(self, self._new_inputs(X), features)
        return dist.rescale(0.0, factor[0] if len(dist.event_shape) == 1 else factor)

    def outliers(self, threshold: float = 2.0) -> np.ndarray:
        """Rows whose noise is far larger than that of an ordinary row at the same input, the most extreme first.

        Args:
            threshold: how many times the standard deviation of an ordinary row's noise theirs is at least.

        Returns:
            Indices of the rows that were fitted (those of positive weight); none where rows have no scales of their
            own.

        Example:
            >>> import numpy as np, widetail as wt
            >>> x = np.linspace(-2.0, 2.0, 40)[:, None]
            >>> y = np.sin(2.0 * x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=40)
            >>> y[20] += 4.0
            >>> wt.ScaleMixtureRegressor(net=wt.nn.mlp(2, "erf"), noise="rows").fit(x, y).outliers().tolist()
            [20]
        """
        posterior = self.posterior
        if isinstance(posterior, RowPosterior) or (isinstance(posterior, InputPosterior) and posterior.scales.own):
            return posterior.outliers(threshold)
        return np.zeros(0, dtype=int)

    def relevances(self) -> dict[str, float]:
        """How much every column matters: the standard deviation of what the prediction would change by if all of its
        cells were the mean of the column, in units of y (of what y is mapped to, if it is); the largest first.

        Example:
            >>> import numpy as np, widetail as wt
            >>> x = np.random.default_rng(0).normal(size=(40, 2))
            >>> model = wt.ScaleMixtureRegressor(net=wt.kernels.RBF(3.0), learn=False).fit(x, 3.0 * x[:, 1])
            >>> list(model.relevances())
            ['x1', 'x0']
        """
        return relevances_of(self)

    def leans_on(self, X: Any, count: int = 5) -> Support:
        """The rows that each prediction leans on: those without which it would change most, and by how much.

        Exact for the learned hyperparameters, which stay as they are; from the weights that the rows have, at the cost
        of an inverse. Changes are in units of y (of what y is mapped to, if it is).

        Args:
            X: inputs, as in `fit`.
            count: how many rows for each of them.

        Returns:
            `rows` and `changes`, two arrays of shape (m, count).

        Example:
            >>> import numpy as np, widetail as wt
            >>> x = np.linspace(-2.0, 2.0, 9)[:, None]
            >>> model = wt.ScaleMixtureRegressor(net=wt.kernels.RBF(), learn=False).fit(x, np.sin(2 * x[:, 0]))
            >>> int(model.leans_on(np.array([[1.5]]), count=1).rows[0, 0])
            7
        """
        return support_of(self, self._new_inputs(X), check_count("count", count))

    def partial_dependence(self, feature: str | int, points: int = 20, rows: int = 100) -> Dependence:
        """What predictions are on average over the rows, if a column had the same value in all of them.

        The average is of the function without noise, with what is not known of it: `average.interval(0.9)` is a band.
        Where y is mapped (`target_`), the average is taken of what it is mapped to, and mapped back.

        Args:
            feature: name or number of a column (of a date, also "sold: time of year" and the like, as in `relevances`).
            points: how many values, at even steps through those of the rows; all levels of a category.
            rows: at most so many of the fitted rows, drawn at random, are averaged over.

        Returns:
            `name`, `values` and `average`, a predictive distribution with an entry for each value.

        Example:
            >>> import numpy as np, widetail as wt
            >>> x = np.random.default_rng(0).uniform(-1.0, 1.0, (60, 2))
            >>> y = 2.0 * x[:, 0] + np.cos(3.0 * x[:, 1])
            >>> model = wt.ScaleMixtureRegressor(net=wt.kernels.RBF(), learn=False).fit(x, y)
            >>> values, average = model.partial_dependence(0)[1:]
            >>> bool(abs((average.median[-1] - average.median[0]) / (values[-1] - values[0]) - 2.0) < 0.2)
            True
        """
        return dependence_of(self, feature, check_count("points", points, least=2), check_count("rows", rows))

    def unusual_rows(self, probability: float = 0.01) -> np.ndarray:
        """Rows of the fit whose targets are further off than the other rows let expect, the most unusual first.

        Args:
            probability: how rare it is to be so far off, tails measured; of usual rows so many are among them.
        """
        return unusual_rows_of(self, probability)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: int = 0) -> np.ndarray:
        """Joint draws of y, shape (n, n_samples) or (n, outputs, n_samples); one readout scale for each draw."""
        draws = self.predict_dist(X).sample(jax.random.key(random_state), (n_samples,))
        return np.moveaxis(np.asarray(draws), 0, -1)

    def _in_units(self, dist: Predictive) -> Predictive:
        return self.target_.apply(self._rescaled(dist))

    @property
    def _half_a_step(self) -> float:
        """Of whole numbers, in standard units; 0 of others."""
        return 0.5 / float(self.y_scaling_.factor[0]) if self.target_.kind == "integer" else 0.0

    def _rescaled(self, dist: Predictive) -> Predictive:
        shift, factor = self.y_scaling_.shift, self.y_scaling_.factor
        if len(dist.event_shape) == 1:
            shift, factor = shift[0], factor[0]
        return dist.rescale(shift, factor)
