"""A small regression problem and its kernel matrices."""

from types import SimpleNamespace

import numpy as np
import pytest

from widetail import nn


@pytest.fixture(scope="package")
def problem():
    rng = np.random.default_rng(0)
    x, x_new = rng.normal(size=(40, 3)), rng.normal(size=(6, 3))
    y = np.sin(x.sum(1)) + 0.1 * rng.normal(size=40)
    net = nn.mlp(2, "erf")
    k = net.kernel(np.concatenate([x, x_new]), get="nngp").nngp
    return SimpleNamespace(
        x=x, y=y, x_new=x_new, y_new=rng.normal(size=6), two=np.stack([y, y**2], 1), net=net,
        k_xx=k[:40, :40], k_tx=k[40:, :40], k_tt=k[40:, 40:],
    )  # fmt: skip
