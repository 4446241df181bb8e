"""MAPIE around scikit-learn's Gaussian process: intervals with a guarantee."""

import time
import warnings
from typing import Any

import numpy as np

from benchmarks.workers._serve import serve

FOLDS = {"jackknife+": -1, "cv+": 10}  # -1: every row is left out by itself


def intervals(x: str, y: str, x_new: str, path: str, method: str, coverage: float) -> dict[str, Any]:
    """Fit, predict, save lower and upper ends (m, 2); wall and processor seconds."""
    from mapie.regression import CrossConformalRegressor
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    warnings.simplefilter("ignore")  # length scales at their bounds
    x, y, x_new = (np.load(name) for name in (x, y, x_new))
    wall, processor = time.perf_counter(), time.process_time()
    kernel = ConstantKernel() * RBF(np.ones(x.shape[1])) + WhiteKernel()
    model = make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True, random_state=0))
    if method == "none":
        mean, std = model.fit(x, y).predict(x_new, return_std=True)
        from scipy.stats import norm

        ends = np.stack([mean + sign * norm.ppf(0.5 + 0.5 * coverage) * std for sign in (-1, 1)], axis=1)
    else:
        conformal = CrossConformalRegressor(model, confidence_level=coverage, method="plus", cv=FOLDS[method])
        ends = conformal.fit_conformalize(x, y).predict_interval(x_new)[1][:, :, 0]
    times = {"seconds": time.perf_counter() - wall, "processor": time.process_time() - processor}
    np.save(path, ends)
    return times


if __name__ == "__main__":
    serve({"intervals": intervals})
