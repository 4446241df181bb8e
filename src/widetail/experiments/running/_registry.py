"""The experiments by name."""

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from widetail.experiments.reporting._parts import Section
from widetail.experiments.running._runner import Task

Size = Literal["quick", "full"]

# A module of this package for each name; it has an `EXPERIMENT`, and is imported when somebody asks for it.
MODULES: Mapping[str, str] = {
    "theory": "theory",
    "uci": "uci",
    "gaussian-classification": "gaussian_classification",
    "sparse": "sparse",
    "unseen": "unseen",
    "few": "few",
    "ensemble": "ensembles",
    "noise": "noise",
}


@dataclasses.dataclass(frozen=True, eq=False)
class Results:
    """What a report is written from.

    Attributes:
        config: what was run.
        size: "quick" or "full".
        rows: the rows of all tasks, each with the key of its task.
        arrays: the arrays of each task, by the values of its key; read when asked for.
    """

    config: Any
    size: Size
    rows: Sequence[Mapping[str, Any]]
    arrays: Callable[..., Mapping[str, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Findings:
    """What a report says of one experiment: answers in a sentence each, and sections."""

    sentences: Sequence[str]
    sections: Sequence[Section]


@dataclasses.dataclass(frozen=True, eq=False)
class Experiment:
    """An experiment as the runner sees it.

    Attributes:
        title: heading of its report.
        question: what it asks, in a sentence or two.
        config: the configuration of each size: a frozen dataclass with a `seed`.
        tasks: what there is to do; listing the tasks must cost nothing.
        findings: what the finished rows say.
    """

    title: str
    question: str
    config: Callable[[Size], Any]
    tasks: Callable[[Any], Sequence[Task]]
    findings: Callable[[Results], Findings]


def config_of(kind: Any) -> Callable[[Size], Any]:
    """The configuration of each size: `kind.quick()`, or the defaults of `kind` for the full one."""
    return lambda size: kind.quick() if size == "quick" else kind()


def experiment(name: str) -> Experiment:
    """The experiment of this name."""
    if name not in MODULES:
        raise ValueError(f"name must be one of {', '.join(MODULES)} or all; got {name!r}.")
    return importlib.import_module(f"widetail.experiments.{MODULES[name]}").EXPERIMENT


def default_folder(name: str, size: Size) -> Path:
    """Where results go when nobody says where."""
    return Path("results") / f"{name}-{size}"
