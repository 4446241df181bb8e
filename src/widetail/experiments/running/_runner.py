"""Doing the tasks of an experiment, each once."""

import dataclasses
import datetime
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from widetail.experiments.running._machine import origin
from widetail.experiments.running._store import Store, name_of
from widetail.progress import Progress, reporter

Row = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """What a task found.

    Attributes:
        rows: numbers, names and short lists: what tables are made of.
        arrays: larger things that figures need, kept in a file beside the rows.
    """

    rows: Sequence[Row]
    arrays: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """The smallest piece of an experiment that is done, or not.

    Attributes:
        key: what tells it from the other tasks of the run, such as the data set and the seed.
        run: does it; the result may depend on the configuration and the key alone.
    """

    key: Mapping[str, str | int]
    run: Callable[[], Outcome]


def run_tasks(store: Store, tasks: Iterable[Task], *, seed: int, progress: Progress = False) -> list[dict[str, Any]]:
    """Do the tasks that `store` does not hold yet; the records of all of them, in the order of the tasks.

    Args:
        store: an open store.
        tasks: keys must differ.
        seed: of tasks that name none of their own.
        progress: True for a bar on a terminal, or a function of (done, to do).
    """
    tasks = list(tasks)
    names = [name_of(task.key) for task in tasks]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(f"keys of tasks must differ; {repeated} occur more than once.")
    missing = [task for task, name in zip(tasks, names, strict=True) if name not in store.records]
    report = reporter(progress, str(store.about["experiment"]))
    where = origin() if missing else {}
    for done, task in enumerate(missing):
        report(done, len(missing))
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        began = time.monotonic()
        outcome = task.run()
        record = {
            "seed": task.key.get("seed", seed),
            **where,
            "started": started,
            "seconds": round(time.monotonic() - began, 3),
            "rows": outcome.rows,
        }
        store.append(task.key, record, outcome.arrays)
        if progress is True and not sys.stderr.isatty():
            print(f"{name_of(task.key)}: {record['seconds']:.1f} s ({done + 1}/{len(missing)})", file=sys.stderr)
    report(len(missing), len(missing))
    return [store.records[name] for name in names]


def rows_of(records: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """All rows, each with the key of its task."""
    return [{**record["task"], **row} for record in records for row in record["rows"]]
