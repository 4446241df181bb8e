"""What a data scientist would pick for a table of numbers, with its defaults: quantiles of new rows."""

import time

import numpy as np

from benchmarks.workers._serve import serve

# The largest table for which scikit-learn's GP learns in minutes; of larger ones it gets so many rows.
GP_ROWS = 1000


def boosting(x, y, x_new, levels):
    from sklearn.ensemble import HistGradientBoostingRegressor

    models = [HistGradientBoostingRegressor(loss="quantile", quantile=level).fit(x, y) for level in levels]
    return np.stack([model.predict(x_new) for model in models], axis=1), None


def ngboost(x, y, x_new, levels):
    from ngboost import NGBRegressor

    x, x_new = imputed(x, x_new)
    found = NGBRegressor(verbose=False, random_state=0).fit(x, y).pred_dist(x_new)
    return np.stack([found.ppf(level) for level in levels], axis=1), found.logpdf


def catboost(x, y, x_new, levels):
    from catboost import CatBoostRegressor

    loss = "MultiQuantile:alpha=" + ",".join(f"{level:.3f}" for level in levels)
    model = CatBoostRegressor(loss_function=loss, verbose=False, random_seed=0, allow_writing_files=False)
    return model.fit(x, y).predict(x_new), None


def forest(x, y, x_new, levels):
    from quantile_forest import RandomForestQuantileRegressor

    x, x_new = imputed(x, x_new)
    return RandomForestQuantileRegressor(random_state=0).fit(x, y).predict(x_new, quantiles=list(levels)), None


def gaussian_process(x, y, x_new, levels):
    from scipy.stats import norm
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, x_new = imputed(x, x_new)
    rows = np.random.default_rng(0).permutation(len(y))[:GP_ROWS]
    kernel = ConstantKernel() * RBF(np.ones(x.shape[1])) + WhiteKernel()
    model = make_pipeline(StandardScaler(), GaussianProcessRegressor(kernel, normalize_y=True, random_state=0))
    mean, std = model.fit(x[rows], y[rows]).predict(x_new, return_std=True)
    return mean[:, None] + std[:, None] * norm.ppf(levels), norm(mean, std).logpdf


def imputed(x, x_new):
    from sklearn.impute import SimpleImputer

    imputer = SimpleImputer(strategy="median").fit(x)
    return imputer.transform(x), imputer.transform(x_new)


METHODS = {
    "boosting": boosting,
    "NGBoost": ngboost,
    "CatBoost": catboost,
    "quantile forest": forest,
    "sklearn GP": gaussian_process,
}


def quantiles(
    method: str, x: str, y: str, x_new: str, y_new: str, levels: list[float], path: str
) -> dict[str, float | None]:
    """Fit, predict, save the quantiles (m, levels); its seconds, and the mean log density where there is one."""
    arrays = [np.load(name) for name in (x, y, x_new)]
    wall, processor = time.perf_counter(), time.process_time()
    found, log_density = METHODS[method](*arrays, np.array(levels))
    times = {"seconds": time.perf_counter() - wall, "processor": time.process_time() - processor}
    np.save(path, np.sort(found, axis=1))  # levels fitted one by one may cross
    return times | {"log_score": None if log_density is None else float(np.mean(log_density(np.load(y_new))))}


if __name__ == "__main__":
    serve({"quantiles": quantiles})
