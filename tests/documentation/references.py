"""Evaluates the left sides of docs/tutorials/neural_tangents.md with neural-tangents 0.6.5.

Run it with a Python that has neural-tangents (`benchmarks/_peers.py` says which versions work together); it writes
neural_tangents.json beside this file. The test of the page evaluates the right sides.
"""

import json
import re
from pathlib import Path

import jax
import numpy as np

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "tutorials" / "neural_tangents.md"


def rows():
    """Left and right code of every row of the page's translations, which end where the list of names begins."""
    for line in PAGE.read_text().split("## Every name")[0].splitlines():
        cells = [re.match(r"`([^`]+)`", cell.strip()) for cell in line.strip("|").split(" | ")]
        if line.startswith("| `") and len(cells) == 2 and all(cells):
            yield tuple(cell.group(1) for cell in cells)


def data(code):
    """Inputs, further inputs and targets: vectors, or images where there are convolutions."""
    rng = np.random.default_rng(0)
    shape = (5, 5, 2) if "Conv" in code else (4,)
    return rng.normal(size=(6, *shape)), rng.normal(size=(3, *shape)), rng.normal(size=6)


def main():
    import neural_tangents as nt
    from neural_tangents import stax

    jax.config.update("jax_enable_x64", True)
    names = {"nt": nt, "stax": stax, "jnp": jax.numpy, "tanh": jax.numpy.tanh}
    readout = stax.Dense(1, W_std=1.0, b_std=None)
    first = next(rows())[0]
    _, _, names["kernel_fn"] = stax.serial(eval(first, names), readout)
    values = {}
    for left, _ in rows():
        names["x"], names["new"], names["y"] = (jax.numpy.asarray(part) for part in data(left))
        made = eval(left, names)
        if isinstance(made, tuple) and callable(made[0]):
            made = stax.serial(made, readout)[2](names["x"], None, ("nngp", "ntk"))
            values[left] = {"nngp": np.asarray(made.nngp).tolist(), "ntk": np.asarray(made.ntk).tolist()}
        else:
            values[left] = np.asarray(made).tolist()
    (HERE / "neural_tangents.json").write_text(json.dumps(values, indent=1) + "\n")


if __name__ == "__main__":
    main()
