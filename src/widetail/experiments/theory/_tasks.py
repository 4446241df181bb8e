"""The theory experiments in parts that can be done one by one, and their result put together again."""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from widetail.experiments.running._registry import Results
from widetail.experiments.running._runner import Outcome, Task
from widetail.experiments.theory._config import TheoryConfig
from widetail.experiments.theory._convergence import Convergence
from widetail.experiments.theory._laws import (
    AllLayers,
    Check,
    Family,
    TheoryResult,
    Trained,
    check_family,
    count_laws,
    families,
    measure_widths,
    stage_laws,
    train_all_layers,
    trained_families,
)
from widetail.finite import Comparison, NetworkDraws, TrainedDraws

Arrays = Mapping[str, np.ndarray]

WIDTHS = "widths"


def tasks(config: TheoryConfig) -> list[Task]:
    """One for every prior, the residual network, every training of all layers, and the widths."""
    parts: dict[str, Callable[[], Outcome]] = {
        name: functools.partial(_check_family, config, family) for name, family in families(config).items()
    }
    for family in trained_families(config):
        parts[family.title] = functools.partial(_train_all_layers, config, family)
    parts[WIDTHS] = functools.partial(_measure_widths, config)
    return [Task({"part": name}, run) for name, run in parts.items()]


def result_of(results: Results) -> TheoryResult:
    """What all parts found, from the records and arrays on the disk."""
    config: TheoryConfig = results.config
    checks = []
    for name, family in families(config).items():
        arrays = results.arrays(name)
        for stage, laws in enumerate(stage_laws(config, family)):
            draws = _unpack(NetworkDraws, arrays, f"draws{stage}")
            for number, (title, law, is_right, predicted) in enumerate(laws):
                comparison = _unpack(Comparison, arrays, f"comparison{stage}.{number}")
                checks.append(Check(title, law, is_right, comparison, draws, predicted, count_laws(config)))
    all_layers = [_all_layers_of(results, family) for family in trained_families(config)]
    return TheoryResult(config, checks, all_layers, *_widths_of(results.rows))


def _all_layers_of(results: Results, family: Trained) -> AllLayers:
    arrays = results.arrays(family.title)
    (row,) = (row for row in results.rows if row["part"] == family.title)
    draws, comparison = _unpack(TrainedDraws, arrays, "draws"), _unpack(Comparison, arrays, "comparison")
    return AllLayers(family, draws, family.law, comparison, row["distance"], row["null_distance"])


def _check_family(config: TheoryConfig, family: Family) -> Outcome:
    checks = check_family(config, family)
    arrays: dict[str, np.ndarray] = {}
    stages = list(dict.fromkeys(check.name for check in checks))
    for stage, title in enumerate(stages):
        mine = [check for check in checks if check.name == title]
        arrays |= _pack(mine[0].draws, f"draws{stage}")
        for number, check in enumerate(mine):
            arrays |= _pack(check.comparison, f"comparison{stage}.{number}")
    return Outcome([_row(check) for check in checks], arrays)


def _row(check: Check) -> dict[str, Any]:
    found = check.comparison
    return {
        "networks": check.name,
        "law": check.law,
        "is_right": check.is_right,
        "passed": check.passed,
        "ks": found.ks.max(),
        "ks_pvalue": found.ks_pvalues.min(),
        "joint_ks": found.joint_ks,
        "joint_ks_pvalue": found.joint_ks_pvalue,
        "joint_energy": found.joint_energy,
        "joint_energy_pvalue": found.joint_energy_pvalue,
    }


def _train_all_layers(config: TheoryConfig, family: Trained) -> Outcome:
    found = train_all_layers(config, family)
    row = {"distance": found.distance, "null_distance": found.null_distance, "passed": found.passed}
    return Outcome([row], _pack(found.draws, "draws") | _pack(found.comparison, "comparison"))


def _measure_widths(config: TheoryConfig) -> Outcome:
    convergence, literal = measure_widths(config)
    rows: list[dict[str, Any]] = [{"kind": "convergence", **dataclasses.asdict(part)} for part in convergence]
    rows += [{"kind": "literal", "width": w, "distance": d, "null_distance": null} for w, d, null in literal]
    return Outcome(rows)


def _widths_of(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[tuple[Convergence, Convergence], list[tuple[int, float, float]]]:
    mine = [row for row in rows if row["part"] == WIDTHS]
    parts = []
    for row in mine:
        if row["kind"] == "convergence":
            values: dict[str, Any] = {field.name: row[field.name] for field in dataclasses.fields(Convergence)}
            for name in ("widths", "distances", "errors"):
                values[name] = np.asarray(values[name], np.float64)
            values["networks"] = tuple(values["networks"])
            parts.append(Convergence(**values))
    start, trained = parts
    literal = [(row["width"], row["distance"], row["null_distance"]) for row in mine if row["kind"] == "literal"]
    return (start, trained), literal


def _pack(record: Any, prefix: str) -> dict[str, np.ndarray]:
    """The fields of a dataclass of numbers and arrays."""
    return {f"{prefix}.{f.name}": np.asarray(getattr(record, f.name)) for f in dataclasses.fields(record)}


def _unpack(kind: Any, arrays: Arrays, prefix: str) -> Any:
    values = {field.name: arrays[f"{prefix}.{field.name}"] for field in dataclasses.fields(kind)}
    return kind(**{name: value.item() if value.ndim == 0 else value for name, value in values.items()})
