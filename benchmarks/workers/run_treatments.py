"""widetail's sparse classifier with one treatment of images after the other, on corruptions that no test uses."""

import time

import numpy as np
from scipy import ndimage

import widetail as wt
from benchmarks.workers._serve import serve
from widetail.datasets import load_images
from widetail.estimators import ImageTreatment
from widetail.experiments.sparse import network

DEPTH = 4


def _occluded(x, rng):
    side = 7
    out = x.copy()
    for image, (row, column) in zip(out, rng.integers(0, x.shape[1] - side, (len(x), 2)), strict=True):
        image[row : row + side, column : column + side] = 0.5
    return out


# Of pixels in [0, 1]: none of those that the tests of the experiments use.
CORRUPTIONS = {
    "clean": lambda x, rng: x,
    "gaussian": lambda x, rng: np.clip(x + rng.normal(0, 0.3, x.shape), 0, 1),
    "motion": lambda x, rng: ndimage.uniform_filter1d(x, 5, axis=2, mode="nearest"),
    "gamma": lambda x, rng: x**0.4,
    "dim": lambda x, rng: 0.5 * x,
    "occlusion": _occluded,
    "salt": lambda x, rng: np.where(rng.random(x.shape) < 0.1, 1.0, x),
    "two levels": lambda x, rng: (x > 0.5).astype(float),
}


def fit(images, treatment, rows, held_out, inducing, seed):
    """Train on the first training images in a random order, score the next ones: test images are not touched."""
    data = load_images(images)
    order = np.random.default_rng(seed).permutation(len(data.y_train))
    chosen, others = order[:rows], order[rows : rows + held_out]
    pixels, labels = data.x_train[others] / 255.0, data.y_train[others].astype(int)
    way = treatment if isinstance(treatment, str) else ImageTreatment(**treatment)
    start = time.perf_counter()
    model = wt.SparseMixtureClassifier(network(DEPTH), wt.PointMass(1.0), inducing, random_state=seed, images=way)
    model.fit(data.x_train[chosen] / 255.0, data.y_train[chosen])
    seconds = time.perf_counter() - start
    found = {}
    for name, corrupt in CORRUPTIONS.items():
        p = model.predict_proba(corrupt(pixels, np.random.default_rng(seed)))[np.arange(len(labels)), labels]
        found[name] = -float(np.mean(np.log(p)))
    return {"nll": found, "seconds": seconds}


if __name__ == "__main__":
    serve({"fit": fit})
