"""Commands in this process: the exit code, and what went to both streams."""

import json
import sys
from typing import NamedTuple

import numpy as np
import pytest

from widetail.cli import main

NET = "mlp(depth=1, activation=erf)"


class Outcome(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def run(capfd):
    """Run a command line."""

    def run(*arguments):
        code = main([str(argument) for argument in arguments])
        sys.stdout.flush()
        return Outcome(code, *capfd.readouterr())

    return run


def write_csv(path, columns):
    names = list(columns)
    lines = [",".join(names), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="session")
def numbers():
    """A table of numbers and one category, whose target depends on all of them."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 90)).round(6)
    colour = np.array(["red", "green", "blue"])[rng.integers(0, 3, 90)]
    y = (3 * np.sin(a) + b + 2.0 * (colour == "red") + 0.2 * rng.normal(size=90)).round(6)
    return {"a": a, "b": b, "colour": colour, "y": y}


@pytest.fixture(scope="session")
def tables(numbers, tmp_path_factory):
    """train.csv and test.csv, and a model of the former."""
    folder = tmp_path_factory.mktemp("tables")
    write_csv(folder / "train.csv", {name: values[:60] for name, values in numbers.items()})
    write_csv(folder / "test.csv", {name: values[60:] for name, values in numbers.items()})
    arguments = ["fit", folder / "train.csv", "--target", "y", "--net", NET, "--out", folder / "model", "--quiet"]
    assert main([str(argument) for argument in arguments]) == 0
    return folder
