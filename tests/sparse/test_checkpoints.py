"""Training that is killed goes on where it was."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from widetail import sparse
from widetail.sparse import train

from .problems import PRIORS, cached, inputs, start


def problem():
    x = inputs(40)
    y = (np.abs(x[:, 0]) * 1.4).astype(np.int64)
    return cached(x, y, x[:8]), sparse.Categorical(3), start(PRIORS["log-normal"], 3, 8)


@pytest.fixture(scope="module")
def whole():
    return train(*problem(), max_iterations=6, tolerance=0.0)


def test_resumed_is_uninterrupted(whole, tmp_path, monkeypatch):
    path = tmp_path / "run"
    calls = 0
    write = sparse.training._train._State.write

    def failing(state, *arguments):
        nonlocal calls
        write(state, *arguments)
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(sparse.training._train._State, "write", failing)
    with pytest.raises(KeyboardInterrupt):
        train(*problem(), max_iterations=6, tolerance=0.0, checkpoint=path)
    monkeypatch.setattr(sparse.training._train._State, "write", write)
    resumed = train(*problem(), max_iterations=6, tolerance=0.0, checkpoint=path)
    assert np.array_equal(resumed.q.mean, whole.q.mean)
    assert np.array_equal(resumed.q.precision, whole.q.precision)
    assert resumed.bounds == whole.bounds
    with pytest.raises(ValueError, match="other data or settings"):
        train(*problem(), max_iterations=6, tolerance=0.0, seed=5, checkpoint=path)


SCRIPT = """
import sys
from tests.sparse.test_checkpoints import problem
from widetail.sparse import train
train(*problem(), max_iterations=6, tolerance=0.0, checkpoint=sys.argv[1])
"""


@pytest.mark.slow
def test_killed_and_resumed(whole, tmp_path):
    path = tmp_path / "run"
    root = Path(__file__).resolve().parents[2]
    environment = os.environ | {"PYTHONPATH": f"{root}{os.pathsep}{root / 'src'}"}
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(path)], cwd=root, env=environment)
    while not path.exists() and process.poll() is None:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert path.exists()
    resumed = train(*problem(), max_iterations=6, tolerance=0.0, checkpoint=path)
    assert np.array_equal(resumed.q.mean, whole.q.mean)
    assert resumed.bounds == whole.bounds
