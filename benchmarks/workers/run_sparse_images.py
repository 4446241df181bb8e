"""widetail's sparse classifier fits a data set of images."""

import time

import numpy as np

import widetail as wt
from benchmarks.workers._serve import memory, serve
from widetail.datasets import load_images
from widetail.datasets.shifts import corrupt_mnist
from widetail.experiments.sparse import network
from widetail.sparse import TrainingOptions

DEPTH = 4
PRIORS = {"SVGP": wt.PointMass(1.0), "SVTP": wt.InverseGamma(2.0, 2.0)}


def fit(images, inducing, model, cache, rows=None, test_rows=None, root=False, shifts=(), keep=None, **options):
    data = load_images(images)

    def of_pixels(x):
        return np.sqrt(x, dtype=np.float32) if root else x

    start, used = time.perf_counter(), time.process_time()
    # everything else as it comes: what is measured is what a user gets
    training = TrainingOptions(**options)
    fitted = wt.SparseMixtureClassifier(network(DEPTH), PRIORS[model], inducing, options=training, cache=cache)
    fitted.fit(of_pixels(data.x_train[:rows]), data.y_train[:rows])
    seconds, cpu, peak = time.perf_counter() - start, time.process_time() - used, memory("VmHWM")
    labels = data.y_test[:test_rows].astype(int)

    def log_probability(pixels):
        return fitted.predict_log_proba(of_pixels(pixels))[np.arange(len(labels)), labels]

    p = fitted.predict_proba(of_pixels(data.x_test[:test_rows]))
    shifted = {}
    for name in shifts:
        pixels = data.x_test[:test_rows]
        pixels = 0.35 * pixels + 0.2 * 255 if name == "faint" else corrupt_mnist(pixels, name, seed=0)
        shifted[name] = -float(np.mean(log_probability(pixels)))
    if keep is not None:
        fitted.save(keep)
    return {
        "accuracy": float(np.mean(np.argmax(p, axis=1) == labels)),
        "nll": -float(np.mean(np.log(p[np.arange(len(labels)), labels]))),
        "shifted": shifted,
        "scale": 1 / fitted.model_.q.law.mean_precision,
        "residual_share": fitted.model_.residual_share,
        "bound": fitted.fit_.bound,
        "seconds": seconds,
        "cpu": cpu,
        "peak": peak,
    }


if __name__ == "__main__":
    serve({"fit": fit})
