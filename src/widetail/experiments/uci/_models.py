"""The models that are compared on regression tables, all fitted by us, none of them with a look at test rows."""

import dataclasses
import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from widetail import nn
from widetail.datasets import Split
from widetail.estimators import ScaleMixtureRegressor, Tails, WideEnsembleRegressor
from widetail.experiments.gaussian_classification._priors import best_prior
from widetail.kernels import Kernel
from widetail.predictive import Predictive
from widetail.priors import BurrXII, InverseGamma, ScalePrior
from widetail.process import LeftOut, ScaledPosterior

RBF, NNGP, INVERSE_GAMMA, BURR, ENSEMBLE = "RBF, ARD", "NNGP", "Inverse gamma", "Burr XII", "Ensemble"
MODELS = (RBF, NNGP, INVERSE_GAMMA, BURR, ENSEMBLE)


@dataclasses.dataclass(frozen=True, eq=False)
class Prediction:
    """What one model says of the test rows, in the units of y.

    Attributes:
        model: one of `MODELS`.
        location: of y, for the squared error.
        own: the predictive distribution of the model itself.
        calibrated: the same with width and tails measured on left-out training rows.
        seconds: what it would have taken alone.
        about: what was chosen and learned.
    """

    model: str
    location: np.ndarray
    own: Predictive
    calibrated: Predictive
    seconds: float
    about: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class EnsembleSettings:
    """How finite ensembles are trained.

    Attributes:
        members, width, batch_size: as in `WideEnsembleRegressor`.
        steps: gradient steps of a member, at most; patience is a tenth of them.
        activations, learning_rates: what the held-out training rows choose from.
        trial_members, trial_steps: of the ensembles that are trained for that choice.
    """

    members: int = 8
    width: int = 128
    batch_size: int = 64
    steps: int = 4000
    activations: tuple[str, ...] = ("relu", "erf")
    learning_rates: tuple[float, ...] = (0.003, 0.01)
    trial_members: int = 2
    trial_steps: int = 1000


def rbf_network(features: int) -> Kernel:
    """An RBF kernel with one relevance per feature."""
    return nn.Sequential(nn.Dense(weight_var=np.full(features, 0.5)), nn.Rbf())


def gaussian_processes(split: Split, *, most_rows_to_relearn: int, seed: int) -> Iterator[Prediction]:
    """NNGP, inverse gamma, Burr XII and RBF.

    The architecture is chosen by evidence under an inverse-gamma prior. NNGP and Burr XII learn on from there, each
    under its own prior, on tables of at most `most_rows_to_relearn` rows; on larger ones, whose readout variance is
    known to a per cent under any prior, they share kernel and noise with the inverse gamma. The readout variance of
    NNGP and RBF is the one with the largest evidence.
    """
    shared = _Fit.learn(split, seed=seed)
    yield shared.predict(INVERSE_GAMMA, best_prior(shared.posterior, InverseGamma))
    for model, family in ((NNGP, None), (BURR, BurrXII)):
        prior = best_prior(shared.posterior, family)
        if len(split.y_train) <= most_rows_to_relearn:
            own = shared.learn_on(prior, seed=seed)
            yield own.predict(model, best_prior(own.posterior, family))
        else:
            yield shared.predict(model, prior)
    rbf = _Fit.learn(split, net=rbf_network(split.x_train.shape[1]), architecture="rbf", seed=seed)
    yield rbf.predict(RBF, best_prior(rbf.posterior, None))


@dataclasses.dataclass(frozen=True, eq=False)
class _Fit:
    """A regressor, its left-out predictions, and the time that both took."""

    split: Split
    regressor: ScaleMixtureRegressor
    architecture: str
    left_out: LeftOut
    seconds: float

    @classmethod
    def learn(cls, split: Split, *, seed: int, before: float = 0.0, architecture: str = "", **options: Any) -> "_Fit":
        began = time.monotonic()
        # calibrated below, for every prior: `calibrate=True` would do it for one
        regressor = ScaleMixtureRegressor(calibrate=False, random_state=seed, **options)
        regressor.fit(split.x_train, split.y_train)
        left_out = regressor.posterior.left_out()
        seconds = before + time.monotonic() - began
        return cls(split, regressor, architecture or regressor.architecture_, left_out, seconds)

    def learn_on(self, prior: ScalePrior, *, seed: int) -> "_Fit":
        """Kernel and noise under another prior, from where they are."""
        process = self.regressor.process_
        start = {"net": process.kernel, "noise": process.noise, "prior": prior}
        return _Fit.learn(self.split, seed=seed, before=self.seconds, architecture=self.architecture, **start)

    @property
    def posterior(self) -> ScaledPosterior:
        posterior = self.regressor.posterior
        assert isinstance(posterior, ScaledPosterior)
        return posterior

    def predict(self, model: str, prior: ScalePrior) -> Prediction:
        began = time.monotonic()
        regressor, posterior = self.regressor, self.posterior.with_prior(prior)
        dist = posterior(regressor.x_scaling_.apply(self.split.x_test))
        # the left-out widths of another prior differ by one factor
        ratio = np.sqrt(self.posterior.scale.mean_precision / posterior.scale.mean_precision)
        left_out = LeftOut(self.left_out.location, self.left_out.scale * ratio)
        tails = Tails.measure(posterior.y, left_out, posterior.rows.counts)
        shift, factor = regressor.y_scaling_.shift[0], regressor.y_scaling_.factor[0]
        own, calibrated = (part.rescale(shift, factor) for part in (dist, tails.apply(dist)))
        return Prediction(
            model=model,
            location=np.asarray(own.median),
            own=own,
            calibrated=calibrated,
            seconds=self.seconds + time.monotonic() - began,
            about={
                "architecture": self.architecture,
                "prior": str(prior),
                "noise": posterior.noise,
                "log_evidence": posterior.log_evidence,
                "tail_degrees": tails.degrees[0],
                "tail_factor": tails.factor[0],
            },
        )


def finite_ensemble(split: Split, settings: EnsembleSettings, *, seed: int) -> Prediction:
    """Finite networks with a readout variance each; activation and learning rate by held-out training rows."""
    began = time.monotonic()

    def fit(activation: str, learning_rate: float, members: int, steps: int) -> WideEnsembleRegressor:
        per_epoch = max(1, round(0.9 * len(split.y_train) / settings.batch_size))
        epochs = max(1, steps // per_epoch)
        model = WideEnsembleRegressor(
            net=nn.mlp(2, activation, weight_var=2.0, bias_var=0.1),
            members=members,
            width=settings.width,
            learning_rate=learning_rate,
            batch_size=settings.batch_size,
            max_epochs=epochs,
            patience=max(1, epochs // 10),
            random_state=seed,
        )
        return model.fit(split.x_train, split.y_train)

    choices: Sequence[tuple[str, float]] = list(itertools.product(settings.activations, settings.learning_rates))
    if len(choices) > 1:
        choice = min(choices, key=lambda it: _held_out_loss(fit(*it, settings.trial_members, settings.trial_steps)))
    else:
        (choice,) = choices
    model = fit(*choice, settings.members, settings.steps)
    dist = model.predict_dist(split.x_test)
    return Prediction(
        model=ENSEMBLE,
        location=model.predict(split.x_test),
        own=dist,
        calibrated=dist,  # its noise is measured on held-out rows already
        seconds=time.monotonic() - began,
        about={"architecture": f"{choice[0]}, depth 2", "learning_rate": choice[1], "noise": model.noise_},
    )


def _held_out_loss(model: WideEnsembleRegressor) -> float:
    assert model.history_ is not None
    losses = model.history_.validation_losses
    # too few rows to hold any out: the last epoch of training has to do
    return float(np.mean(np.min(losses, axis=0) if np.isfinite(losses).any() else model.history_.train_losses[-1]))
