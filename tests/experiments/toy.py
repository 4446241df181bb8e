"""An experiment that takes no time. As a script: `python toy.py FOLDER SECONDS_PER_TASK`."""

import dataclasses
import sys
import time
from pathlib import Path

import numpy as np

from widetail.experiments import Experiment, Findings, Outcome, Store, Task, run_tasks
from widetail.experiments.report import Bullets, Code, Figure, Prose, Section, Table, TextTable
from widetail.plots import ResultTable


@dataclasses.dataclass(frozen=True)
class ToyConfig:
    draws: int = 50
    seeds: int = 6
    seed: int = 0


def tasks(config, pause=0.0):
    def run(seed, model):
        time.sleep(pause)
        values = np.random.default_rng(seed).normal(model == "shifted", 1.0, config.draws)
        return Outcome([{"model": model, "mean": values.mean(), "worst": np.inf}], {"values": values})

    return [
        Task({"seed": seed, "kind": model}, lambda s=seed, m=model: run(s, m))
        for seed in range(config.seeds)
        for model in ("plain", "shifted")
    ]


def run(folder, config, pause=0.0):
    with Store(folder, "toy", config) as store:
        return run_tasks(store, tasks(config, pause), seed=config.seed)


def dot():
    """A PNG file."""
    from matplotlib import pyplot

    from widetail.experiments.report import png

    figure, ax = pyplot.subplots(figsize=(1, 1))
    ax.plot([0, 1], [0, 1])
    return png(figure)


def findings(results):
    table = ResultTable(["<row>"], ["ours", "paper"], np.array([[0.5, 1.0]]), title="A & B", beside=["paper"])
    blocks = [
        Prose("With `code`, **bold** and <tags> & signs."),
        Bullets(["one", "two"]),
        Table(table, "A note."),
        TextTable(("head", "of | text"), [("a", "b")]),
        Figure("toy-dot", dot(), 'A "dot".'),
        Code("print('<hello>')"),
    ]
    return Findings([f"There are {len(results.rows)} rows."], [Section("Everything", blocks)])


EXPERIMENT = Experiment("Toy & co", "Does it run?", lambda size: ToyConfig(), tasks, findings)


if __name__ == "__main__":
    run(Path(sys.argv[1]), ToyConfig(), float(sys.argv[2]))
