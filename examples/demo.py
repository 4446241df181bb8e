"""The main job on data that scikit-learn ships: a heavy-tailed infinite network beside the plain one.

Fits both to the diabetes data, prints log score, RMSE and coverage of patients that neither has seen, and draws the
predictive intervals to out/demo.png.
"""

import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

import widetail as wt

x, y = load_diabetes(return_X_y=True)
x_train, x_test, y_train, y_test = train_test_split(x, y, test_size=0.25, random_state=0)
models = {
    "Student-t process": wt.ScaleMixtureRegressor(prior=wt.InverseGamma(2.0, 2.0)),
    "plain NNGP": wt.ScaleMixtureRegressor(prior=wt.PointMass(1.0), calibrate=False),
}

print(f"{len(y_train)} patients to learn from, {len(y_test)} to predict\n")
print(f"{'':18s} {'log score':>10s} {'RMSE':>7s} {'50 %':>6s} {'90 %':>6s} {'95 %':>6s}   architecture, time to fit")
for name, model in models.items():
    began = time.monotonic()
    model.fit(x_train, y_train)
    seconds = time.monotonic() - began
    rmse = np.sqrt(np.mean((model.predict(x_test) - y_test) ** 2))
    covered = []
    for coverage in (0.5, 0.9, 0.95):
        lower, upper = model.predict_interval(x_test, coverage)
        covered.append(np.mean((y_test > lower) & (y_test < upper)))
    shares = " ".join(f"{100 * share:5.1f}%" for share in covered)
    score = model.log_score(x_test, y_test)
    print(f"{name:18s} {score:10.3f} {rmse:7.2f} {shares}   {model.architecture_}, {seconds:.1f} s")

model = models["Student-t process"]
print(f"\nwhat the Student-t process learned:\n{model.evidence_fit_}")

order = np.argsort(model.predict(x_test))
rank = np.arange(len(order))
figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
for coverage, shade in ((0.95, "0.9"), (0.5, "0.75")):
    lower, upper = model.predict_interval(x_test[order], coverage)
    axes.fill_between(rank, lower, upper, color=shade, lw=0, step="mid", label=f"{coverage:.0%} interval")
axes.step(rank, model.predict(x_test)[order], where="mid", color="C0", label="predicted")
axes.plot(rank, y_test[order], "o", ms=3.5, color="C3", label="observed")
axes.set(
    xlabel="patients that the model has not seen, by prediction",
    ylabel="disease progression after one year",
    title=f"Predictive intervals of a Student-t process ({model.architecture_})",
    xlim=(-1, len(order)),
)
axes.spines[["top", "right"]].set_visible(False)
axes.legend(frameon=False, loc="upper left")
target = Path("out") / "demo.png"
target.parent.mkdir(exist_ok=True)
figure.savefig(target, dpi=150)
print(f"\nwrote {target}")
