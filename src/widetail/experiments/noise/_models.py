"""What predicts on tables with wrong targets or loud inputs: our models, boosted trees, and other libraries."""

import dataclasses
import os
import shlex
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
from sklearn.ensemble import GradientBoostingRegressor

from widetail import metrics
from widetail.estimators import ScaleMixtureRegressor, SparseMixtureRegressor
from widetail.experiments.noise._cases import Case
from widetail.experiments.uci._models import rbf_network

# Each stands for a tenth of all probability; the first and the last are the ends of the central 90 %.
LEVELS = (np.arange(10) + 0.5) / 10
CONSTANT, ROWS, INPUTS, BOTH, AUTO = "constant", "rows", "inputs", "both", "auto"
SPARSE, HUBER, QUANTILES = "sparse Student-t", "Huber boosting", "boosted quantiles"
# One noise variance, learned by somebody who knows which targets are wrong and leaves them out.
KNOWN = "constant, wrong rows left out"
OURS = {CONSTANT: "scaled", ROWS: "rows", INPUTS: "inputs", BOTH: "both", AUTO: "auto", KNOWN: "scaled"}
PURSUIT, STUDENT_SVGP = "BoTorch relevance pursuit", "GPyTorch Student-t SVGP"
NGBOOST, CATBOOST, FOREST = "NGBoost", "CatBoost", "quantile forest"
PEERS = (PURSUIT, STUDENT_SVGP, NGBOOST, CATBOOST, FOREST)
# A command that answers `MODEL IN.npz OUT.npz` for the names above; benchmarks/noise.py makes one.
COMMAND = "WIDETAIL_PEERS"
INDUCING = 100
TREES = 200
BINS = 5
NODES = np.polynomial.hermite_e.hermegauss(40)


@dataclasses.dataclass(frozen=True)
class Forecast:
    """What a model says of the test rows.

    Attributes:
        location: shape (m,).
        nll: mean negative log density of the targets; None where the model has no density.
        quantiles: at `LEVELS`, shape (10, m); None where the model has none.
        about: what it learned.
    """

    location: np.ndarray
    nll: float | None
    quantiles: np.ndarray | None
    about: dict[str, Any] = dataclasses.field(default_factory=dict)

    def scores(self, y: np.ndarray) -> dict[str, Any]:
        """Numbers of a row of results."""
        found = {"rmse": metrics.rmse(self.location, y), "nll": self.nll}
        if self.quantiles is None:
            return found | self.about
        lower, upper = self.quantiles[0], self.quantiles[-1]
        inside = (lower <= y) & (y <= upper)
        parts = np.array_split(np.argsort(upper - lower, kind="stable"), BINS)
        return {
            **found,
            "crps": metrics.crps_from_quantiles(self.quantiles, LEVELS, y),
            "in_90%": float(np.mean(inside)),
            "in_90%_by_width": [float(np.mean(inside[part])) for part in parts],
            **self.about,
        }


def fit_and_predict(model: str, case: Case, seed: int) -> dict[str, Any]:
    """The scores of one model on one case, and the time that it took."""
    began, used = time.monotonic(), time.process_time()
    if model in OURS or model == SPARSE:
        forecast = _ours(model, case.without_wrong() if model == KNOWN else case, seed)
    elif model in PEERS:
        forecast = _peer(model, case)
    else:
        forecast = _boosted(model, case, seed)
    seconds = {"seconds": time.monotonic() - began, "processor_seconds": time.process_time() - used}
    return forecast.scores(case.y_test) | seconds


def _ours(model: str, case: Case, seed: int) -> Forecast:
    net = rbf_network(case.x.shape[1])
    about: dict[str, Any] = {}
    if model == SPARSE:
        inducing = min(INDUCING, len(case.y))
        fitted: Any = SparseMixtureRegressor(net, None, inducing, seed, likelihood="student_t").fit(case.x, case.y)
    else:
        fitted = ScaleMixtureRegressor(net=net, noise=OURS[model], random_state=seed).fit(case.x, case.y)
        choice = fitted.noise_choice_
        about = {"outliers": len(fitted.outliers()), "noise": None if choice is None else choice.name}
    dist = fitted.predict_dist(case.x_test)
    quantiles = np.asarray(dist.quantile(LEVELS))
    return Forecast(np.asarray(fitted.predict(case.x_test)), metrics.nll(dist, case.y_test), quantiles, about)


def _boosted(model: str, case: Case, seed: int) -> Forecast:
    options = {"n_estimators": TREES, "learning_rate": 0.05, "subsample": 0.7, "random_state": seed}
    if model == HUBER:
        fitted = GradientBoostingRegressor(loss="huber", **options).fit(case.x, case.y)
        return Forecast(fitted.predict(case.x_test), None, None)
    columns = [
        GradientBoostingRegressor(loss="quantile", alpha=level, **options).fit(case.x, case.y).predict(case.x_test)
        for level in LEVELS
    ]
    quantiles = np.sort(columns, axis=0)  # crossed ones are put in order
    return Forecast(0.5 * (quantiles[4] + quantiles[5]), None, quantiles)


def has_peers() -> bool:
    """Whether somebody has said how other libraries are asked."""
    return COMMAND in os.environ


def _peer(model: str, case: Case) -> Forecast:
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder) / "in.npz", Path(folder) / "out.npz"
        np.savez(asked, x=case.x, y=case.y, x_test=case.x_test, levels=LEVELS)
        command = [*shlex.split(os.environ[COMMAND]), model, str(asked), str(answered)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"{model} failed: {done.stderr[-2000:]}")
        with np.load(answered) as file:
            said = dict(file)
    location, about = said["location"], {"fit_seconds": float(said["seconds"])}
    if "quantiles" in said:
        return Forecast(location, None, np.sort(said["quantiles"], axis=0), about)
    if "degrees" in said:
        return Forecast(location, _nll_of_student_t(said, case.y_test), None, about)
    nll = -float(np.mean(scipy.stats.norm.logpdf(case.y_test, location, said["sd"])))
    return Forecast(location, nll, scipy.stats.norm.ppf(LEVELS[:, None], location, said["sd"]), about)


def _nll_of_student_t(said: dict[str, np.ndarray], y: np.ndarray) -> float:
    """Of Student's t noise around a function with a normal law, by quadrature over the function."""
    nodes, weights = NODES
    values = said["location"] + said["sd"] * nodes[:, None]
    density = scipy.stats.t.pdf(y, said["degrees"], values, said["scale"])
    return -float(np.mean(np.log(weights / weights.sum() @ density)))
