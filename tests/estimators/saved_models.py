"""Small fitted models kept as files, with what they predicted when they were written.

Those of version 1 of the format are in `saved_1`. `python -m tests.estimators.saved_models` writes what is missing in
the folder of the present version, and leaves files that are there alone: a file that later versions could not read
must fail a test, not be replaced.
"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import scipy.sparse
import scipy.stats as st

import widetail as wt
from widetail import nn
from widetail.estimators import ImageTreatment, save

FOLDERS = {version: Path(__file__).parent / f"saved_{version}" for version in (1, 2)}
NEWEST = max(FOLDERS)

X = np.random.default_rng(0).normal(size=(24, 3))
NEW = np.random.default_rng(1).normal(size=(5, 3))
Y = np.sin(X[:, 0]) + 0.5 * X[:, 1]
LABELS = np.where(Y > 0, "up", "down")
IMAGES, NEW_IMAGES = (np.random.default_rng(seed).normal(size=(n, 6, 5, 2)) for seed, n in ((2, 12), (3, 5)))
NET = nn.mlp(2, "erf")
GIVEN: dict[str, Any] = {"learn": False, "calibrate": False}


class Kept(NamedTuple):
    """A model that is not fitted, or a function that fits one, and its data."""

    model: Any
    x: Any
    y: np.ndarray
    new: Any = NEW

    def fitted(self) -> Any:
        return self.model.fit(self.x, self.y) if hasattr(self.model, "fit") else self.model(self.x, self.y)


def estimators() -> dict[str, Kept]:
    """One of every kind; these are kept in version 1 too."""
    wide: dict[str, Any] = {"width": 8, "members": 3, "max_epochs": 20}
    prior = wt.BurrXII(3.0, 2.0)
    return {
        "ScaleMixtureRegressor": Kept(wt.ScaleMixtureRegressor(net=NET, prior=prior), X, Y),
        "ScaleMixtureClassifier": Kept(wt.ScaleMixtureClassifier(net=NET), X, LABELS),
        "WideEnsembleRegressor": Kept(wt.WideEnsembleRegressor(net=NET, **wide), X, Y),
        "WideEnsembleClassifier": Kept(wt.WideEnsembleClassifier(net=NET, **wide), X, LABELS),
        "SparseMixtureRegressor": Kept(wt.SparseMixtureRegressor(net=NET, inducing=8), X, Y),
        "SparseMixtureClassifier": Kept(wt.SparseMixtureClassifier(net=NET, inducing=8), X, LABELS),
    }


def activations() -> nn.Sequential:
    """Every activation once, side by side and one after the other."""
    rows = [
        [nn.ABRelu(0.1, 0.8), nn.Hermite(2), nn.Gabor(), nn.Sin(0.7, 0.2), nn.Sign(), nn.Gelu()],
        [nn.LeakyRelu(0.2), nn.Monomial(2), nn.Gaussian(0.5), nn.Cos(0.7), nn.Erf(), nn.Tanh(order=16)],
        [nn.Abs(), nn.Polynomial([0.1, 1.0, 0.2]), nn.ExpNormalized(), nn.Rbf(0.7), nn.SigmoidLike(), nn.Exp()],
        [nn.Relu(), nn.RectifiedMonomial(2), nn.Identity(), nn.Sigmoid(order=16), nn.LayerNorm(), nn.Dropout(0.9)],
    ]
    branches = [
        nn.Sequential(*(layer for one in row for layer in (nn.Dense(weight_var=0.5, bias_var=0.1), one)), nn.Dense())
        for row in rows
    ]
    return nn.Sequential(nn.Parallel(*branches, combine="product"))


def positions() -> nn.Sequential:
    """Every layer that has to do with positions."""
    ring = scipy.sparse.coo_array(np.eye(6) + np.roll(np.eye(6), 1, 0))
    return nn.Sequential(
        nn.Slice(slice(0, 5), slice(None, 4)),
        nn.LocalConv(2, bias_var=0.1),
        nn.Relu(),
        nn.ConvTranspose(3, strides=2, padding="SAME"),
        nn.Resize((4, 6)),
        nn.Relu(),
        nn.AvgPool(2),
        nn.Aggregate(ring),
        nn.Conv(3, weight_var=1.5, padding="CIRCULAR"),
        nn.PositionalEmbedding(0.1, length=2.0),
        nn.SelfAttention(),
        nn.SumPool(2),
        nn.Parallel(nn.GlobalAvgPool(), nn.GlobalSumPool(), combine="concatenate"),
    )


def masked() -> nn.Sequential:
    """Inputs of unequal size, and a constant array that positions are summed with."""
    return nn.Sequential(
        nn.Masked(nn.Conv(3, bias_var=0.1), nn.Relu(), nn.DotGeneral(np.eye(5, 2), (1,)), nn.Flatten())
    )


def of_table(x: np.ndarray, y: np.ndarray) -> Any:
    """A kernel of every kind, and a prior of scipy."""
    kernels = wt.kernels
    smooth = 0.5 * kernels.RBF(1.5) * kernels.RationalQuadratic(2.0, 1.0) + kernels.PowerExponential(1.0, 1.3)
    kernel = smooth + kernels.Anova(3, order=2) + kernels.Linear() + kernels.Matern(1.0)
    prior = wt.ScalePrior.wrap(st.gamma(2.0, loc=0.5))
    return wt.ScaleMixtureRegressor(kernel, prior, wt.IndependentNoise(0.1), **GIVEN).fit(x, y)


def of_few_classes(x: np.ndarray, y: np.ndarray) -> Any:
    """A classifier that knows of a class without rows, images and their treatment."""
    model = wt.SparseMixtureClassifier(
        nn.Sequential(nn.Conv(2), nn.Relu(), nn.Flatten()),
        wt.PointMass(2.0),
        inducing=10,
        images=ImageTreatment("binomial"),
        doubt=True,
    )
    return model.fit(x, y)


def of_counts(x: np.ndarray, y: np.ndarray) -> Any:
    """Another likelihood, a prior without a closed form, and options of training."""
    net = nn.Sequential(nn.Dense(bias_var=0.1), nn.Residual(nn.Erf(), nn.Dense()), nn.Erf())
    options = wt.sparse.TrainingOptions(residual_share=1.0)
    model = wt.SparseMixtureRegressor(net, wt.LogNormal(0.0, 0.5), 6, likelihood="poisson", options=options)
    return model.fit(x, y)


def of_stream(x: np.ndarray, y: np.ndarray) -> Any:
    """A model that keeps the rows that it has seen, which are few."""
    model = wt.SparseMixtureClassifier(NET, inducing=6, learn=False)
    model.partial_fit(x[:12], y[:12], classes=["down", "middle", "up"])
    return model.partial_fit(x[12:], y[12:])


def frame(numbers: np.ndarray) -> pl.DataFrame:
    """Texts and missing cells."""
    colours = np.where(numbers[:, 1] > 0, "blue", "red")
    return pl.DataFrame({"a": [None, *numbers[1:, 0]], "colour": colours, "b": numbers[:, 2]}, strict=False)


def new_in_2() -> dict[str, Kept]:
    """What files of version 1 could not hold, or did not exist."""
    rng = np.random.default_rng(4)
    classes = rng.integers(0, 3, 400)
    pictures = rng.normal(size=(400, 5, 5, 1)) + 2.0 * np.eye(3, 25)[classes].reshape(400, 5, 5, 1)
    return {
        "activations": Kept(wt.ScaleMixtureRegressor(activations(), wt.HalfCauchy(1.0), **GIVEN), X, Y),
        "positions": Kept(
            wt.ScaleMixtureRegressor(positions(), wt.Gamma(2.0, 2.0), **GIVEN),
            IMAGES,
            Y[:12],
            NEW_IMAGES,
        ),
        "masked": Kept(wt.ScaleMixtureRegressor(masked(), **GIVEN), IMAGES, Y[:12], NEW_IMAGES),
        "kernels": Kept(of_table, X, Y),
        "program": Kept(wt.ScaleMixtureRegressor(wt.programs.mlp(depth=1), wt.BetaPrime(3.0, 2.0), **GIVEN), X, Y),
        "integrated": Kept(wt.ScaleMixtureRegressor(), X[:14], Y[:14]),
        "frame": Kept(wt.ScaleMixtureRegressor(wt.kernels.RBF(1.0), **GIVEN), frame(X), Y, frame(NEW)),
        "doubt": Kept(of_few_classes, pictures, classes, pictures[:5]),
        "stream": Kept(of_stream, X, LABELS),
        "counts": Kept(of_counts, X, np.round(np.exp(Y)).astype(float)),
        "positive": Kept(wt.ScaleMixtureRegressor(NET, target="positive", max_iterations=3), X, np.exp(Y)),
        "bent": Kept(wt.ScaleMixtureRegressor(NET, max_iterations=3), X, -np.exp(Y)),
        "bounded": Kept(wt.ScaleMixtureRegressor(NET, target="bounded", max_iterations=3), X, 1 / (1 + np.exp(-Y))),
        "few_far_rows": Kept(
            wt.ScaleMixtureRegressor(NET, noise=wt.RowNoise(wt.Contaminated(0.1, 20.0, 50.0), 0.02), **GIVEN), X, Y
        ),
        "rows": Kept(wt.ScaleMixtureRegressor(NET, noise="rows", max_iterations=3), X, Y),
        "inputs": Kept(wt.ScaleMixtureRegressor(NET, noise="inputs", max_iterations=3), X, Y),
    }


def kept(version: int) -> dict[str, Kept]:
    """What the folder of this version holds, by name."""
    return estimators() | (new_in_2() if version > 1 else {})


def answers(model: Any, new: Any = NEW) -> dict[str, list]:
    """What a loaded model must repeat."""
    if hasattr(model, "predict_proba"):
        return {"labels": model.predict(new).tolist(), "numbers": model.predict_proba(new).tolist()}
    lower, upper = model.predict_interval(new, coverage=0.9)
    return {"numbers": np.column_stack([model.predict(new), lower, upper]).tolist()}


if __name__ == "__main__":
    folder = FOLDERS[NEWEST]
    folder.mkdir(exist_ok=True)
    for name, case in kept(NEWEST).items():
        path = folder / f"{name}.widetail"
        if not path.exists():
            model = case.fitted()
            save(model, path, {"table": {"columns": ["a", "b"]}} if name == "ScaleMixtureRegressor" else None)
            path.with_suffix(".json").write_text(json.dumps(answers(model, case.new), indent=1) + "\n")
            print(path, path.stat().st_size)
