"""widetail's exact posteriors answer."""

import functools

import widetail as wt
from benchmarks.workers._regression import DEGREES, LENGTH_SCALE, NOISE, VARIANCE, timed, values
from benchmarks.workers._serve import serve

KERNEL = wt.kernels.RBF(LENGTH_SCALE, VARIANCE)


def fit_and_predict(prior, x, y, x_new):
    latent = wt.ScaleMixture(KERNEL, prior, wt.ScaledNoise(NOISE)).posterior(x, y).f(x_new)
    return latent.mean, latent.var


PRIORS = {
    "exact": wt.PointMass(1.0),
    "student_t": wt.InverseGamma(DEGREES / 2, DEGREES / 2 - 1),  # of mean 1
    "burr": wt.BurrXII(2.0, 1.0),
}

if __name__ == "__main__":
    actions = {name: timed(functools.partial(fit_and_predict, prior)) for name, prior in PRIORS.items()}
    serve(actions | {"values": values})
