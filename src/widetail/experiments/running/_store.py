"""Results on disk: one JSON line per task, whole or not there."""

import json
import os
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from widetail.experiments.running._json import as_json, differences
from widetail.files import write_whole

try:
    import fcntl
except ImportError:  # Windows: nothing keeps two runs apart there
    fcntl = None

LINES = "rows.jsonl"


class ConfigChangedError(ValueError):
    """The folder holds results of another configuration."""


class Store:
    """The lines of one run, in a folder of their own.

    A line is appended and synced to the disk when its task is done. If the process or the machine dies meanwhile, the
    file ends in a torn line, which the next run cuts off; the task has to be done again, and no other one.

    Use it as a context: while it is open, no second run can write to the folder.
    """

    def __init__(self, folder: Path, experiment: str, config: Any):
        self.folder = folder
        self.path = folder / LINES
        self.about = {"experiment": experiment, "config": as_json(config)}
        self.records: dict[str, dict[str, Any]] = {}
        self._file = -1

    def __enter__(self) -> "Store":
        self.folder.mkdir(parents=True, exist_ok=True)
        is_new = not self.path.exists()
        self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            self._lock()
            if is_new:
                _sync_folder(self.folder)
            for record in self._read():
                self._check_config(record)
                if self._is_whole(record):
                    self.records[name_of(record["task"])] = record
        except BaseException:
            os.close(self._file)
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        os.close(self._file)

    def append(self, task: Mapping[str, Any], record: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Write one finished task; it is on the disk when this returns."""
        entry = {**self.about, "task": as_json(task), **as_json(record), "arrays": None}
        if arrays:
            # before the line: a line never names a file that is not there
            entry["arrays"] = f"arrays/{name_of(task)}.npz"
            path = self.folder / entry["arrays"]
            path.parent.mkdir(exist_ok=True)
            packed = BytesIO()
            np.savez_compressed(packed, allow_pickle=False, **dict(arrays))
            write_whole(path, packed.getvalue())
        line = (json.dumps(entry, ensure_ascii=False, allow_nan=False) + "\n").encode()
        while line:
            line = line[os.write(self._file, line) :]
        os.fsync(self._file)
        self.records[name_of(task)] = entry

    def arrays(self, record: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The arrays of a finished task."""
        if record["arrays"] is None:
            return {}
        with np.load(self.folder / record["arrays"], allow_pickle=False) as file:
            return {name: file[name] for name in file.files}

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BlockingIOError(
                f"another run is writing to {self.folder}; wait for it, or choose another out."
            ) from error

    def _read(self) -> list[dict[str, Any]]:
        """All whole lines; a torn one at the end is cut off."""
        content = self.path.read_bytes()
        records, good = [], 0
        lines = content.splitlines(keepends=True)
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                if not isinstance(record, dict) or "task" not in record:
                    raise ValueError("not a line of results")
            except ValueError as error:
                if number < len(lines):
                    raise ValueError(
                        f"line {number} of {self.path} is damaged ({error}) and lines follow it: this is not what an "
                        f"interrupted run leaves. Remove that line to do its task again, or choose another out."
                    ) from error
                os.ftruncate(self._file, good)
                break
            good += len(line)
            records.append(record)
            if not line.endswith(b"\n"):
                os.write(self._file, b"\n")
        os.fsync(self._file)
        return records

    def _is_whole(self, record: Mapping[str, Any]) -> bool:
        """False when the arrays are gone, as where the lines alone were copied: the task is then done again."""
        return record["arrays"] is None or (self.folder / record["arrays"]).is_file()

    def _check_config(self, record: Mapping[str, Any]) -> None:
        old, new = ({"experiment": it["experiment"], **it["config"]} for it in (record, self.about))
        changed = differences(old, new)
        if changed:
            raise ConfigChangedError(
                f"{self.path} holds results of another configuration, which must not be mixed with these: "
                f"{'; '.join(changed)}. Choose another out, or remove the folder."
            )


def name_of(task: Mapping[str, Any]) -> str:
    """A name for a task that is also a name for a file."""
    text = "-".join(str(value) for value in as_json(task).values())
    return "".join(letter if letter.isalnum() or letter in "-._" else "_" for letter in text)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere folders cannot be opened
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
