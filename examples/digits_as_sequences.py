"""Handwritten digits as sequences: a recurrent network's kernel against that of a perceptron on the flattened image.

An image of 8 x 8 pixels is read row by row, a sequence of 8 steps with 8 features. Both kernels go into the same
Student-t process; their hyperparameters are learned by evidence on part of the training rows. The question: is the
digit even?
"""

import time
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import widetail as wt
from widetail import nn, programs

SEED, TRAIN, LEARN = 0, 600, 200

data: Any = load_digits()
images = data.images / 8.0 - 1.0  # pixels from -1 to 1
target = np.where(data.target % 2 == 0, 1.0, -1.0)
order = np.random.default_rng(SEED).permutation(len(images))
train, test = order[:TRAIN], order[TRAIN:]

# Read column by column, narrow digits are shorter: sequences of unequal length, without their blank columns.
columns = images.transpose(0, 2, 1)
inked = [np.flatnonzero((image > -1).any(axis=1)) for image in columns]
trimmed = [image[rows[0] : rows[-1] + 1] for image, rows in zip(columns, inked, strict=True)]

inputs = {
    "perceptron on 64 pixels": (nn.mlp(2, "erf", weight_var=2.0, bias_var=0.1), images.reshape(len(images), -1)),
    "recurrent network on 8 rows": (programs.rnn, images),
    "recurrent network, inked columns only": (programs.packed_rnn, programs.pack(trimmed)),
}

print(f"{TRAIN} images to learn from, {len(test)} to predict; even or odd, as a regression on +1 and -1\n")
print(f"{'kernel':38} {'evidence':>9} {'accuracy':>9} {'RMSE':>7} {'NLL':>7} {'90 % cover':>11} {'seconds':>8}")
for name, (kernel, x) in inputs.items():
    start = time.perf_counter()
    process = wt.ScaleMixture(kernel, prior=wt.InverseGamma(2.0, 2.0), noise=wt.ScaledNoise(1e-2))
    process = wt.fit_evidence(process, x[train[:LEARN]], target[train[:LEARN]]).process
    posterior = process.posterior(x[train], target[train])
    predicted = posterior(x[test])
    mean, y = np.asarray(predicted.mean), target[test]
    low, high = predicted.interval(0.9)
    accuracy = np.mean(np.sign(mean) == y)
    rmse = np.sqrt(np.mean((mean - y) ** 2))
    nll = -np.mean(predicted.log_prob(y))
    covered = np.mean((low <= y) & (y <= high))
    seconds = time.perf_counter() - start
    evidence = float(posterior.log_evidence)
    print(f"{name:38} {evidence:9.1f} {accuracy:9.3f} {rmse:7.3f} {nll:7.3f} {covered:11.3f} {seconds:8.1f}")

print("\nThe recurrent network as a tensor program, for two rows:\n")
print(programs.explain(programs.rnn, (2, 8)))
