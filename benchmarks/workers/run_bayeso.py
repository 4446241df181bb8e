"""bayeso's Student-t process answers."""

import numpy as np
from bayeso.tp import tp  # pyright: ignore[reportMissingImports]

from benchmarks.workers._regression import DEGREES, LENGTH_SCALE, NOISE, VARIANCE, timed, values
from benchmarks.workers._serve import serve


def fit_and_predict(x, y, x_new):
    numbers = {
        "signal": np.sqrt(VARIANCE),
        "lengthscales": np.full(x.shape[1], LENGTH_SCALE),
        "noise": np.sqrt(NOISE),
        "dof": DEGREES,
    }
    _, mean, std, _ = tp.predict_with_hyps(x, y[:, None], x_new, numbers, str_cov="se")
    return mean[:, 0], std[:, 0] ** 2


if __name__ == "__main__":
    serve({"exact": timed(fit_and_predict), "values": values})
