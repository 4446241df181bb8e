"""Outliers, and noise that depends on the input: kinds of noise against each other and against other libraries."""

import dataclasses
import functools
from typing import Any

from widetail.datasets import UCI_NAMES
from widetail.experiments.noise import _cases as cases
from widetail.experiments.noise import _models as models
from widetail.experiments.noise._report import findings
from widetail.experiments.running._registry import Experiment, Size
from widetail.experiments.running._runner import Outcome, Task

# The order in which models are fitted: what is asked for first, so that a report of what there is says most.
ORDER = (
    models.CONSTANT,
    models.ROWS,
    models.KNOWN,
    models.INPUTS,
    models.HUBER,
    models.CATBOOST,
    models.FOREST,
    models.PURSUIT,
    models.STUDENT_SVGP,
    models.NGBOOST,
    models.QUANTILES,
    models.AUTO,
    models.SPARSE,
    models.BOTH,
)
FOR_OUTLIERS = {models.CONSTANT, models.ROWS, models.AUTO, models.SPARSE, models.HUBER}
FOR_OUTLIERS |= {models.PURSUIT, models.STUDENT_SVGP, models.KNOWN}
# With smaller shares of wrong targets, and from more rows.
FOR_MORE = (models.CONSTANT, models.ROWS, models.KNOWN)
FOR_DEFAULT = (models.CONSTANT, models.AUTO)
FOR_INPUTS = {models.CONSTANT, models.INPUTS, models.BOTH, models.AUTO, models.QUANTILES}
FOR_INPUTS |= {models.NGBOOST, models.CATBOOST, models.FOREST}


@dataclasses.dataclass(frozen=True)
class NoiseConfig:
    """What to fit.

    Attributes:
        tables: UCI tables.
        functions: of `datasets.FUNCTIONS`, with noise that grows along an input.
        splits: of the 20 standard splits, from the first; as many draws of functions.
        rows, test_rows: of every table and function, at most.
        shares: of training targets that are replaced.
        smaller_shares: for three of our models only.
        large_rows: of every table, at most, where those three learn from more rows; 0 for nowhere.
        default_splits: of the tables as they are, for one noise variance against the noise that is chosen.
        kinds: how they are replaced.
        motorcycle_splits: random splits of the motorcycle data.
        has_peers: whether other libraries take part; see `benchmarks/noise.py`.
        seed: of everything.
    """

    tables: tuple[str, ...] = UCI_NAMES
    functions: tuple[str, ...] = ("wing", "ackley", "dixon_price", "griewank", "rosenbrock")
    splits: int = 1
    rows: int = 150
    test_rows: int = 500
    shares: tuple[float, ...] = (0.2,)
    smaller_shares: tuple[float, ...] = (0.05, 0.1)
    large_rows: int = 1000
    default_splits: int = 5
    kinds: tuple[cases.Kind, ...] = ("shift", "scatter", "wrong sign")
    motorcycle_splits: int = 5
    has_peers: bool = False
    seed: int = 0

    @classmethod
    def quick(cls) -> "NoiseConfig":
        """One table, one function, one kind of outliers."""
        return cls(
            tables=("yacht",),
            functions=("griewank",),
            rows=100,
            smaller_shares=(),
            large_rows=0,
            default_splits=1,
            kinds=("shift",),
            motorcycle_splits=1,
        )


def config(size: Size) -> NoiseConfig:
    """The configuration of each size."""
    has_peers = models.has_peers()
    chosen = NoiseConfig.quick() if size == "quick" else NoiseConfig()
    return dataclasses.replace(chosen, has_peers=has_peers)


def tasks(config: NoiseConfig) -> list[Task]:
    """One for every table, what was done to it, and model."""
    spoilt = [("none", 0), *_spoilt(config, config.shares)]
    less = _spoilt(config, config.smaller_shares)
    loud = [(name, split) for split in range(config.splits) for name in (*config.tables, *config.functions)]
    loud += [(cases.MOTORCYCLE, split) for split in range(config.motorcycle_splits)]
    keys: list[dict[str, Any]] = []

    def add(part: str, model: str, changes: list[tuple[str, int]], splits: int = config.splits) -> None:
        keys.extend(
            {"part": part, "data": table, "split": split, "kind": kind, "percent": percent, "model": model}
            for split in range(splits)
            for kind, percent in changes
            for table in config.tables
        )

    for model in ORDER:
        if model in models.PEERS and not config.has_peers:
            continue
        if model in FOR_OUTLIERS:
            add("outliers", model, spoilt + (less if model in FOR_MORE else []))
        if model in FOR_INPUTS:
            shared = {"kind": "inputs", "percent": 0, "model": model}
            keys += [{"part": "inputs", "data": name, "split": split, **shared} for name, split in loud]
    for model in FOR_MORE if config.large_rows else ():
        add("many rows", model, spoilt)
    for model in FOR_DEFAULT:
        add("default", model, [("none", 0)], config.default_splits)
    keys.sort(key=lambda key: key["data"] in config.functions)  # what was measured first
    return [Task(key, functools.partial(_run, config, **key)) for key in keys]


def _spoilt(config: NoiseConfig, shares: tuple[float, ...]) -> list[tuple[str, int]]:
    return [(kind, round(100 * share)) for share in shares for kind in config.kinds]


def _run(config: NoiseConfig, part: str, data: str, split: int, kind: cases.Kind, percent: int, model: str) -> Outcome:
    rows = config.large_rows if part == "many rows" else config.rows
    if data == cases.MOTORCYCLE:
        case = cases.motorcycle(split, config.seed)
    elif data in config.functions:
        case = cases.loud_function(data, split, rows, config.test_rows, config.seed)
    else:
        case = cases.table(data, split, rows, config.test_rows, config.seed)
    if kind not in ("none", "inputs"):
        case = cases.spoilt(case, kind, percent / 100, config.seed + split)
    about = {"measured": cases.has_motorcycle()} if data == cases.MOTORCYCLE else {}
    return Outcome([models.fit_and_predict(model, case, config.seed) | about])


EXPERIMENT = Experiment(
    title="Outliers, and noise that depends on the input",
    question=(
        "How much do wrong targets cost a regression with one noise variance, with a scale for every row, and methods "
        "of other libraries; and what does a noise variance that depends on the input give where noise does?"
    ),
    config=config,
    tasks=tasks,
    findings=findings,
)
