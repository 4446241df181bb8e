"""The command as a process of its own: speed of --help, signals, pipes, terminals."""

import os
import pty
import select
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.cli.conftest import NET, write_csv

WIDETAIL = [sys.executable, "-m", "widetail"]


@pytest.fixture
def long_fit(tmp_path):
    """A command that learns for minutes unless it is stopped."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 12))
    columns = {f"x{i}": x[:, i] for i in range(12)} | {"y": np.sin(x).sum(axis=1)}
    path = write_csv(tmp_path / "t.csv", columns)
    return [*WIDETAIL, "fit", str(path), "--target", "y", "--out", str(tmp_path / "m")]


def test_help_does_not_load_jax():
    code = (
        "import sys; from widetail.cli import main; assert main(['fit', '--help']) == 0; "
        "heavy = {'jax', 'sklearn', 'scipy', 'matplotlib', 'polars'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_completion_in_bash(tmp_path):
    """As a user installs it: the shell is found out from the process that runs the command."""
    widetail = " ".join(WIDETAIL)
    complete = f'COMP_WORDS="widetail ev" COMP_CWORD=1 _WIDETAIL_COMPLETE=complete_bash {widetail}'
    outcome = subprocess.run(
        ["bash", "-c", f"{widetail} --install-completion && {complete}; exit $?"],
        env=os.environ | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert outcome.stdout.splitlines()[-1] == "evaluate"
    assert "widetail" in (tmp_path / ".bashrc").read_text()


def test_a_fresh_process_predicts_the_same(run, tables):
    command = ["predict", str(tables / "model"), str(tables / "test.csv")]
    outcome = subprocess.run([*WIDETAIL, *command], capture_output=True, text=True, check=True)
    assert outcome.stderr == ""
    assert outcome.stdout.count("\n") == 31
    assert outcome.stdout == run(*command).out


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (signal.SIGINT, 130, "interrupted"),
        pytest.param(signal.SIGTERM, 143, "terminated", marks=pytest.mark.slow),
    ],
)
def test_signals_end_it_cleanly(long_fit, tmp_path, number, code, word):
    process = subprocess.Popen(long_fit, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "1500 rows" in process.stderr.readline()  # the table is read; now it learns
    time.sleep(2)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    assert out == ""
    assert err == f"widetail: {word}\n"
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.slow
def test_a_bar_on_a_terminal_and_none_in_a_pipe(tables, tmp_path):
    fit = [*WIDETAIL, "fit", str(tables / "train.csv"), "--target", "y", "--out", str(tmp_path / "m")]
    main_end, terminal = pty.openpty()
    process = subprocess.Popen(fit, stdout=subprocess.DEVNULL, stderr=terminal)
    os.close(terminal)
    shown = b""
    while True:
        ready, _, _ = select.select([main_end], [], [], 120)
        try:
            piece = os.read(main_end, 4096) if ready else b""
        except OSError:  # the other end is closed: Linux says so with an error
            piece = b""
        if not piece:
            break
        shown += piece
    os.close(main_end)
    assert process.wait() == 0
    assert b"candidates [" in shown
    assert b"\r\x1b[K" in shown  # the bar is wiped
    piped = subprocess.run([*fit, "--net", NET], capture_output=True, text=True, check=True)
    assert "[" not in piped.stderr
    assert "\x1b" not in piped.stderr + piped.stdout
    assert piped.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_closed_pipe_is_no_error(tables):
    command = " ".join([*WIDETAIL, "inspect", str(tables / "model"), "| sleep 0; echo ${PIPESTATUS[0]}"])
    outcome = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert outcome.stderr == ""
    assert outcome.stdout.strip() == "141"
