"""Fingerprints: the same for the same thing in every process, and different for different things."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.gaussian_process.kernels import Matern as SklearnMatern

from widetail import kernels, nn, sparse
from widetail.files import fingerprint


def squared(factor):
    return nn.Sequential(nn.Dense(weight_var=1.5), nn.Elementwise(lambda t: factor * t**2))


def test_fingerprints_of_different_things():
    different = [
        nn.mlp(1, "erf"),
        nn.mlp(2, "erf"),
        nn.mlp(1, "relu"),
        nn.Sequential(nn.Dense(weight_var=np.array([1.0, 2.0])), nn.Relu()),
        nn.Sequential(nn.Dense(weight_var=np.array([1.0, 2.0 + 1e-12])), nn.Relu()),
        nn.Sequential(nn.Dense(weight_var=np.ones(5000)), nn.Relu()),
        nn.Sequential(nn.Dense(weight_var=np.append(np.ones(4999), 2.0)), nn.Relu()),
        kernels.RBF(),
        kernels.RBF(2.0),
        squared(1.0),
        squared(2.0),
        nn.Sequential(nn.Dense(weight_var=1.5), nn.Elementwise(lambda t: t**3)),
        SklearnMatern(),
        SklearnMatern(2.0),
    ]
    prints = [fingerprint(kernel) for kernel in different]
    assert len(set(prints)) == len(different)
    assert fingerprint(squared(1.0)) == prints[9]
    x = np.arange(6.0)
    shapes = [fingerprint(v) for v in (x.reshape(2, 3), x.reshape(3, 2), x.reshape(2, 3).astype(np.float32))]
    assert len(set(shapes)) == 3
    assert fingerprint(np.zeros(0)) != fingerprint(np.zeros((0, 2)))
    assert fingerprint(np.float64(1.0)) != fingerprint(np.float64(2.0))
    likelihoods = [sparse.Gaussian(noise) for noise in (0.1, 0.2, jnp.asarray(0.3), jnp.asarray(0.4))]
    assert len({fingerprint(likelihood) for likelihood in likelihoods}) == 4


@pytest.mark.parametrize("function", ["lambda t: {}", "jax.jit(lambda t: {})", "lambda t: (lambda u: {})(t)"])
def test_fingerprints_do_not_depend_on_where_the_code_stands(function):
    source = f"net = nn.Sequential(nn.Dense(weight_var=1.5), nn.Elementwise({function.format('scale * jnp.tanh(t)')}))"
    found = []
    for before, scale in (("", 2.0), ("\n" * 30, 2.0), ("", 3.0)):
        names = {"nn": nn, "jax": jax, "jnp": jnp, "scale": scale}
        exec(compile(before + source, f"file{len(found)}.py", "exec"), names)
        found.append(fingerprint(names["net"]))
    assert found[0] == found[1] != found[2]


def test_fingerprints_of_classes_of_the_user():
    source = """
class Base(sparse.Likelihood):
    width = {width}
    @property
    def twice(self):
        return {factor} * self.width
class Own(Base):
    def log_prob(self, f, y, scale):
        return -abs(y - f) / self.twice
    def sample(self, key, f, scale):
        return f
own = Own()
"""
    found = []
    for width, factor in ((1.0, 2.0), (1.0, 2.0), (3.0, 2.0), (1.0, 4.0)):
        names = {"sparse": sparse, "__name__": "own"}
        exec(source.format(width=width, factor=factor), names)
        found.append(fingerprint(names["own"]))
    assert found[0] == found[1]
    assert len(set(found)) == 3


FINGERPRINT = """
import jax.numpy as jnp
from tests.distributed.clusters import slow_kernel
from widetail import nn
from widetail.files import fingerprint
from widetail.process import as_kernel

KERNELS = as_kernel(slow_kernel(0.1)), nn.Sequential(nn.Dense(weight_var=1.5), nn.Elementwise(lambda t: jnp.sin(t) * 3))
print(*map(fingerprint, KERNELS))
"""


def test_fingerprints_are_the_same_in_every_process(capsys):
    exec(FINGERPRINT, {})
    here = capsys.readouterr().out
    path = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", FINGERPRINT]
    assert subprocess.run(command, env=environment, capture_output=True, check=True, text=True).stdout == here
