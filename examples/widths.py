"""One architecture, two readings: finite networks and their infinitely wide limit, on the diabetes data.

Prints how the covariance of finite networks approaches the limit, and draws out/widths.png.
"""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

from widetail import nn

NETWORKS = 8  # per width
WIDTHS = (16, 64, 256, 1024, 4096)
DRAWS = 6

net = nn.Sequential(
    nn.Dense(weight_var=2.0, bias_var=0.1),
    nn.Relu(),
    nn.Dense(weight_var=2.0, bias_var=0.1),
    nn.Relu(),
)
data: Any = load_diabetes()
x = (data.data - data.data.mean(axis=0)) / data.data.std(axis=0)


def covariance(width: int, key: jax.Array) -> np.ndarray:
    """The covariance of the readout of one finite network, given its other weights."""
    f = net.at_width(width)
    h = f.features(f.init(key, x.shape[1:]), jnp.asarray(x, jnp.float32))
    return np.asarray(h @ h.T / h.shape[1])


limit = net.kernel(x, get="nngp").nngp
print(f"{net}\non {len(x)} patients with {x.shape[1]} features\n")
print("  width   relative error of the NNGP kernel")
errors = []
for width in WIDTHS:
    keys = jax.random.split(jax.random.key(width), NETWORKS)
    gaps = [np.linalg.norm(covariance(width, key) - limit) / np.linalg.norm(limit) for key in keys]
    errors.append(np.mean(gaps))
    print(f"  {width:5d}   {errors[-1]:.3f}  (mean of {NETWORKS} networks; one standard deviation {np.std(gaps):.3f})")

# Functions along the body mass index, all other features at their mean.
grid = np.linspace(-3, 3, 200)
along = np.zeros((len(grid), x.shape[1]))
along[:, data.feature_names.index("bmi")] = grid
f = net.at_width(1024)
networks = [f.init(key, along.shape[1:]) for key in jax.random.split(jax.random.key(1), DRAWS)]
finite = np.hstack([f.apply(network, jnp.asarray(along, jnp.float32)) for network in networks])
k = net.kernel(along, get="nngp").nngp
infinite = np.random.default_rng(1).multivariate_normal(np.zeros(len(grid)), k, size=DRAWS, method="eigh").T

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.6), layout="constrained")
band = 1.96 * np.sqrt(np.diagonal(k))
for axes, values, title in (
    (left, finite, f"{DRAWS} networks of width {f.width}"),
    (middle, infinite, f"{DRAWS} draws from the limit"),
):
    axes.fill_between(grid, -band, band, color="0.9", lw=0, label="95 % of the limit")
    axes.plot(grid, values, lw=1.4)
    axes.set(xlabel="body mass index [standard deviations]", ylabel="f", title=title, ylim=(-3, 3), xlim=(-3, 3))
    axes.legend(loc="lower left", frameon=False)
right.loglog(WIDTHS, errors, "o-", label="finite networks")
slope = errors[-1] * np.sqrt(WIDTHS[-1] / np.asarray(WIDTHS))
right.loglog(WIDTHS, slope, "--", color="0.5", label=r"$\propto 1/\sqrt{\mathrm{width}}$")
right.set(xlabel="width", ylabel="relative error", title="Covariance: networks against limit")
right.set_xticks(WIDTHS, [str(width) for width in WIDTHS])
right.set_yticks([0.05, 0.1, 0.2, 0.5, 1], ["5 %", "10 %", "20 %", "50 %", "100 %"])
right.minorticks_off()
right.legend(frameon=False)
for axes in (left, middle, right):
    axes.spines[["top", "right"]].set_visible(False)

target = Path("out") / "widths.png"
target.parent.mkdir(exist_ok=True)
figure.savefig(target, dpi=150)
print(f"\nwrote {target}")
