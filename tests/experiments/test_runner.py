"""Results on disk: nothing is lost, nothing is done twice, nothing is mixed."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from widetail.experiments import ConfigChangedError, Outcome, Store, Task, rows_of, run_tasks
from widetail.experiments.running import LINES

from . import toy

CONFIG = toy.ToyConfig()


def lines(folder):
    return (folder / LINES).read_text().splitlines()


def without_times(records):
    return [{name: value for name, value in record.items() if name not in ("started", "seconds")} for record in records]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = tmp_path_factory.mktemp("unbroken")
    return folder, toy.run(folder, CONFIG)


def test_a_run_that_is_killed_goes_on_where_it_stopped(unbroken, tmp_path):
    folder, expected = unbroken
    broken = tmp_path / "broken"
    script = [sys.executable, "-m", "tests.experiments.toy", str(broken), "0.3"]
    process = subprocess.Popen(script, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE)
    give_up = time.monotonic() + 120
    while not (broken / LINES).exists() or len(lines(broken)) < 3:
        assert process.poll() is None, process.stderr.read().decode()
        assert time.monotonic() < give_up
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stderr.close()
    kept = lines(broken)
    assert 3 <= len(kept) < len(expected)
    resumed = toy.run(broken, CONFIG)
    assert lines(broken)[: len(kept)] == kept  # byte for byte: nothing was done again
    assert without_times(resumed) == without_times(expected)
    assert without_times(map(json.loads, lines(broken))) == without_times(map(json.loads, lines(folder)))
    for record in expected:
        with np.load(folder / record["arrays"]) as one, np.load(broken / record["arrays"]) as other:
            assert_array_equal(one["values"], other["values"])


@pytest.mark.parametrize("cut", [1, 10, 200])
def test_a_torn_line_is_cut_off_and_its_task_done_again(unbroken, tmp_path, cut):
    content = (unbroken[0] / LINES).read_bytes()
    (tmp_path / LINES).write_bytes(content[:-cut])
    (tmp_path / "arrays").symlink_to(unbroken[0] / "arrays")
    before = (unbroken[0] / LINES).stat().st_size
    assert without_times(toy.run(tmp_path, CONFIG)) == without_times(unbroken[1])
    assert len(lines(tmp_path)) == len(unbroken[1])
    if cut == 1:  # the line was whole but for its end
        assert (tmp_path / LINES).read_bytes() == content
    assert (unbroken[0] / LINES).stat().st_size == before


def test_zeros_at_the_end_are_cut_off(unbroken, tmp_path):
    """What some file systems leave after a power cut."""
    content = b"".join(line + b"\n" for line in (unbroken[0] / LINES).read_bytes().splitlines()[:4])
    (tmp_path / LINES).write_bytes(content + b"\0" * 300)
    (tmp_path / "arrays").symlink_to(unbroken[0] / "arrays")
    with Store(tmp_path, "toy", CONFIG) as store:
        assert len(store.records) == 4
    assert (tmp_path / LINES).read_bytes() == content


def test_a_task_whose_arrays_are_gone_is_done_again(unbroken, tmp_path):
    """As where the lines are under version control and the arrays are not."""
    shutil.copytree(unbroken[0], tmp_path, dirs_exist_ok=True)
    (tmp_path / unbroken[1][3]["arrays"]).unlink()
    assert without_times(toy.run(tmp_path, CONFIG)) == without_times(unbroken[1])
    assert len(lines(tmp_path)) == len(unbroken[1]) + 1


def test_a_damaged_line_in_the_middle_is_an_error(unbroken, tmp_path):
    kept = lines(unbroken[0])
    (tmp_path / LINES).write_text("\n".join([kept[0], kept[1][:50], kept[2]]) + "\n")
    with pytest.raises(ValueError, match=r"line 2 of .* is damaged"):
        toy.run(tmp_path, CONFIG)


def test_another_configuration_is_refused(unbroken):
    folder, _ = unbroken
    before = (folder / LINES).read_bytes()
    with pytest.raises(ConfigChangedError, match=r"draws: 50 there, 51 here.*Choose another out"):
        toy.run(folder, dataclasses.replace(CONFIG, draws=51))
    with (
        pytest.raises(ConfigChangedError, match="experiment: 'toy' there, 'other' here"),
        Store(folder, "other", CONFIG),
    ):
        pass
    assert (folder / LINES).read_bytes() == before


def test_every_line_says_where_it_is_from(unbroken):
    for number, line in enumerate(lines(unbroken[0])):
        record = json.loads(line)
        assert record["config"] == dataclasses.asdict(CONFIG)
        assert record["seed"] == number // 2
        assert record["task"] == {"seed": number // 2, "kind": ("plain", "shifted")[number % 2]}
        assert record["commit"]
        assert "cores" in record["machine"]
        assert record["seconds"] >= 0
        assert record["rows"][0]["worst"] is None  # infinity is not JSON
    rows = rows_of(unbroken[1])
    assert rows[3]["model"] == rows[3]["kind"] == "shifted"


def test_two_runs_do_not_write_to_one_folder(tmp_path):
    with Store(tmp_path, "toy", CONFIG), pytest.raises(BlockingIOError, match="another run is writing"):
        toy.run(tmp_path, CONFIG)
    assert len(toy.run(tmp_path, CONFIG)) == 12


def test_a_task_that_fails_keeps_what_was_done(tmp_path):
    def fail():
        raise ZeroDivisionError

    good = Task({"n": 1}, lambda: Outcome([{"value": 1.0}]))
    with Store(tmp_path, "toy", CONFIG) as store, pytest.raises(ZeroDivisionError):
        run_tasks(store, [good, Task({"n": 2}, fail)], seed=0)
    assert len(lines(tmp_path)) == 1


def test_progress_counts_what_is_left(unbroken, tmp_path):
    (tmp_path / LINES).write_text("\n".join(lines(unbroken[0])[:10]) + "\n")
    (tmp_path / "arrays").symlink_to(unbroken[0] / "arrays")
    calls = []
    with Store(tmp_path, "toy", CONFIG) as store:
        run_tasks(store, toy.tasks(CONFIG), seed=0, progress=lambda *call: calls.append(call))
    assert calls == [(0, 2), (1, 2), (2, 2)]


def test_tasks_must_differ(tmp_path):
    task = Task({"n": 1}, lambda: Outcome([]))
    with Store(tmp_path, "toy", CONFIG) as store, pytest.raises(ValueError, match="keys of tasks must differ"):
        run_tasks(store, [task, task], seed=0)


def test_synced_before_the_next_task(tmp_path, monkeypatch):
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(len(lines(tmp_path))) or real(handle))
    toy.run(tmp_path, dataclasses.replace(CONFIG, seeds=2))
    assert [count for count in synced if count] == sorted(count for count in synced if count)
    assert {1, 2, 3, 4} <= set(synced)
