"""Our regressors as those of skpro: `predict_proba`, `predict_interval`, `predict_quantiles`, `predict_var`.

Needs skpro (`pip install skpro`), which is imported with this module.
"""

from typing import Any

import numpy as np

from widetail.estimators import ScaleMixtureRegressor

try:
    from skpro.distributions.base import BaseDistribution  # pyright: ignore[reportMissingImports]
    from skpro.regression.base import BaseProbaRegressor  # pyright: ignore[reportMissingImports]
except ImportError as error:
    raise ImportError("widetail.compat.skpro needs skpro: install it with `pip install skpro`.") from error


class PredictiveDistribution(BaseDistribution):
    """A predictive distribution of one target as skpro has them: rows, and one column.

    Args:
        dist: a `widetail.predictive.Predictive` of as many points as there are rows.
        index, columns: names of the rows and of the column; without them it is that of a single number.
    """

    _tags = {  # noqa: RUF012
        "capabilities:exact": ["mean", "var", "pdf", "log_pdf", "cdf", "ppf"],
        "capabilities:approx": ["energy", "pdfnorm"],
        "distr:measuretype": "continuous",
        "broadcast_init": "off",
    }

    def __init__(self, dist: Any, index: Any = None, columns: Any = None):
        self.dist = dist
        super().__init__(index=index, columns=columns)

    def _at(self, method: str, x: Any) -> np.ndarray:
        x = np.asarray(x, dtype=np.float64)
        return np.reshape(np.asarray(getattr(self.dist, method)(x.reshape(-1))), x.shape)

    def _cdf(self, x: Any) -> np.ndarray:
        return self._at("cdf", x)

    def _log_pdf(self, x: Any) -> np.ndarray:
        return self._at("log_prob", x)

    def _pdf(self, x: Any) -> np.ndarray:
        return np.exp(self._log_pdf(x))

    def _ppf(self, p: Any) -> np.ndarray:
        """A level for every row: all rows are solved for every level that occurs, which mostly is one."""
        levels, which = np.unique(np.asarray(p, dtype=np.float64), return_inverse=True)
        table = np.asarray(self.dist.quantile(levels))  # (levels, rows)
        rows = np.arange(table.shape[1])
        return table[which.reshape(-1), rows].reshape(np.shape(p))

    def _mean(self) -> np.ndarray:
        return np.reshape(np.asarray(self.dist.mean), self.shape)

    def _var(self) -> np.ndarray:
        return np.reshape(np.asarray(self.dist.var), self.shape)

    def _subset_params(self, rowidx: Any, colidx: Any, coerce_scalar: bool = False) -> dict[str, Any]:
        return {"dist": self.dist if rowidx is None else self.dist[np.atleast_1d(np.asarray(rowidx))]}

    def _iat(self, rowidx: Any = None, colidx: Any = None) -> "PredictiveDistribution":
        return PredictiveDistribution(self.dist[np.atleast_1d(np.asarray(rowidx))])


class ProbaRegressor(BaseProbaRegressor):
    """A regressor with a predictive distribution, for skpro.

    Args:
        regressor: any regressor of `widetail` with `predict_dist`; `ScaleMixtureRegressor()` by default. It is cloned.

    Attributes:
        regressor_: the fitted one.

    Example:
        >>> import numpy as np, pandas as pd, widetail as wt
        >>> from widetail.compat.skpro import ProbaRegressor
        >>> X = pd.DataFrame({"x": np.linspace(-2.0, 2.0, 20)})
        >>> model = ProbaRegressor(wt.ScaleMixtureRegressor(net=wt.kernels.RBF())).fit(X, np.sin(X))
        >>> model.predict_interval(X, coverage=0.9).shape
        (20, 2)
    """

    _tags = {"capability:multioutput": False, "capability:missing": False}  # noqa: RUF012

    def __init__(self, regressor: Any = None):
        self.regressor = regressor
        super().__init__()

    def _fit(self, X: Any, y: Any) -> "ProbaRegressor":
        from sklearn.base import clone

        model: Any = ScaleMixtureRegressor() if self.regressor is None else clone(self.regressor)
        self._y_columns = y.columns
        self.regressor_ = model.fit(X, np.asarray(y, dtype=np.float64)[:, 0])
        return self

    def _predict_proba(self, X: Any) -> PredictiveDistribution:
        dist = self.regressor_.predict_dist(X)
        return PredictiveDistribution(dist, index=X.index, columns=self._y_columns)

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """What skpro's own checks make instances of."""
        from widetail import kernels

        shared = {"net": kernels.RBF(3.0), "max_iterations": 3}
        regressors = [ScaleMixtureRegressor(**shared), ScaleMixtureRegressor(calibrate=False, **shared)]
        return [{"regressor": regressor} for regressor in regressors]
