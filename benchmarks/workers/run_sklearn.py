"""scikit-learn answers."""

from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from benchmarks.workers._regression import LENGTH_SCALE, NOISE, VARIANCE, timed, values
from benchmarks.workers._serve import serve


def fit_and_predict(x, y, x_new):
    kernel = ConstantKernel(VARIANCE) * RBF(LENGTH_SCALE)
    model = GaussianProcessRegressor(kernel, alpha=NOISE, optimizer=None).fit(x, y)
    mean, std = model.predict(x_new, return_std=True)
    return mean, std**2


if __name__ == "__main__":
    serve({"exact": timed(fit_and_predict), "values": values})
