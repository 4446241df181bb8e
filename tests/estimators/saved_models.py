"""Small fitted models kept as files, with what they predicted when they were written.

`python -m tests.estimators.saved_models` writes them anew: only when the format of the files changes, and then their
version does too.
"""

import json
from pathlib import Path

import numpy as np

import widetail as wt

FOLDER = Path(__file__).parent / "saved_1"
X = np.random.default_rng(0).normal(size=(24, 3))
NEW = np.random.default_rng(1).normal(size=(5, 3))
Y = np.sin(X[:, 0]) + 0.5 * X[:, 1]
LABELS = np.where(Y > 0, "up", "down")
NET = wt.nn.mlp(2, "erf")


def models():
    """One estimator of every kind, not fitted, with its targets."""
    wide = {"width": 8, "members": 3, "max_epochs": 20}
    prior = wt.BurrXII(3.0, 2.0)
    return {
        "ScaleMixtureRegressor": (wt.ScaleMixtureRegressor(net=NET, prior=prior), Y),
        "ScaleMixtureClassifier": (wt.ScaleMixtureClassifier(net=NET), LABELS),
        "WideEnsembleRegressor": (wt.WideEnsembleRegressor(net=NET, **wide), Y),
        "WideEnsembleClassifier": (wt.WideEnsembleClassifier(net=NET, **wide), LABELS),
        "SparseMixtureRegressor": (wt.SparseMixtureRegressor(net=NET, inducing=8), Y),
        "SparseMixtureClassifier": (wt.SparseMixtureClassifier(net=NET, inducing=8), LABELS),
    }


def answers(model):
    """What a loaded model must repeat."""
    if hasattr(model, "predict_proba"):
        return {"labels": model.predict(NEW).tolist(), "numbers": model.predict_proba(NEW).tolist()}
    lower, upper = model.predict_interval(NEW, coverage=0.9)
    return {"numbers": np.column_stack([model.predict(NEW), lower, upper]).tolist()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, (model, y) in models().items():
        model.fit(X, y).save(FOLDER / f"{name}.widetail")
        (FOLDER / f"{name}.json").write_text(json.dumps(answers(model), indent=1) + "\n")
