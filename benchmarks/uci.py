"""The regressor with its defaults against a plain Gaussian process on the UCI tables, standard splits."""

import time
from collections.abc import Iterator

import numpy as np

import widetail as wt
from benchmarks._registry import Result, benchmark
from widetail import datasets, metrics
from widetail.experiments._regression_models import rbf_network

SPLITS = 5  # the first of the 20
COVERAGES = (0.5, 0.9, 0.95)


def plain_gp(features: int) -> wt.ScaleMixtureRegressor:
    """An RBF kernel with learned relevances, amplitude and noise, Gaussian throughout."""
    return wt.ScaleMixtureRegressor(net=rbf_network(features), prior=wt.PointMass(1.0), calibrate=False)


@benchmark("uci", f"negative log score of y in its units, mean of {SPLITS} splits, against RBF with learned ARD")
def run() -> Iterator[Result]:
    shares = []
    for name in datasets.UCI_NAMES:
        table = datasets.load_regression(name)
        ours, plain, seconds, covered = [], [], [], []
        for number in range(SPLITS):
            split = table.split(number)
            began = time.monotonic()
            model = wt.ScaleMixtureRegressor().fit(split.x_train, split.y_train)
            seconds.append(time.monotonic() - began)
            ours.append(-model.log_score(split.x_test, split.y_test))
            dist = model.predict_dist(split.x_test)
            covered.append([metrics.coverage(dist, split.y_test, coverage) for coverage in COVERAGES])
            baseline = plain_gp(split.x_train.shape[1]).fit(split.x_train, split.y_train)
            plain.append(-baseline.log_score(split.x_test, split.y_test))
        shares.append(np.mean(covered, axis=0))
        yield {
            "case": f"{name}, {len(table.split(0).y_train)} rows",
            "ours": float(np.mean(ours)),
            "plain GP": float(np.mean(plain)),
            "+-": float(np.std(np.subtract(ours, plain), ddof=1) / np.sqrt(SPLITS)),
            "seconds": float(np.mean(seconds)),
            **{f"in {coverage:.0%}": float(share) for coverage, share in zip(COVERAGES, shares[-1], strict=True)},
            "reached": "yes" if np.mean(ours) <= np.mean(plain) else "NO",
        }
    gap = np.abs(np.mean(shares, axis=0) - COVERAGES)
    print(f"mean coverage over the tables: {np.mean(shares, axis=0).round(3)}, within {gap.max():.3f} (0.03 asked)")
