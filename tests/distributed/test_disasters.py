"""What must not matter: processes that are killed, disks that are full, runs that are started twice."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import dask
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from tests.distributed.clusters import dense, local_client, separate_cluster, slow_kernel
from widetail import distributed as wd

pytestmark = [
    pytest.mark.slow,
    # sockets of processes that were killed are closed by the garbage collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture
def x():
    return np.random.default_rng(0).normal(size=(60, 2))


def tiles_in(store):
    return list(store.with_name(f"{store.name}.tiles").glob("tile-*"))


def wait_for(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def kill_when(condition, pid):
    """A thread that kills a process once a condition holds."""

    def work():
        wait_for(condition)
        os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=work)
    thread.start()
    return thread


@pytest.mark.parametrize("workers", [2, 1])
def test_a_worker_is_killed(x, tmp_path, workers):
    """With one worker, the inputs that were scattered to it die with it."""
    store = tmp_path / "K.zarr"
    with local_client(workers) as client:
        victim = next(iter(client.run(os.getpid).values()))
        killer = kill_when(lambda: len(tiles_in(store)) >= 4, victim)
        found = wd.gram(slow_kernel(0.1), x, client, store, block=10, progress=False)
        killer.join()
        assert victim not in client.run(os.getpid).values()
    assert found.computed == 21
    assert_array_equal(np.asarray(found), dense(x))


def test_a_worker_is_killed_during_the_factorisation(x, tmp_path):
    matrix = dense(x) + 0.1 * np.eye(60)
    with local_client(2) as client:
        gram = wd.gram(slow_kernel(), x, client, tmp_path / "K.zarr", block=5, progress=False)
        victim = next(iter(client.run(os.getpid).values()))
        store = tmp_path / "L.zarr"
        killer = kill_when(lambda: len(tiles_in(store)) >= 12, victim)
        factor = wd.cholesky(gram, client, store, noise=0.1, progress=False)
        killer.join()
    assert_allclose(factor.array[:], np.linalg.cholesky(matrix), atol=1e-13)
    assert_allclose(factor.log_det, np.linalg.slogdet(matrix)[1], rtol=1e-12)


def test_the_scheduler_is_killed(x, tmp_path):
    store = tmp_path / "K.zarr"
    with separate_cluster(tmp_path) as (client, scheduler):
        killer = kill_when(lambda: len(tiles_in(store)) >= 4, scheduler.pid)
        with pytest.raises(wd.ClusterError, match="the same call goes on from there"):
            wd.gram(slow_kernel(0.2), x, client, store, block=10, progress=False)
        killer.join()
    finished = len(tiles_in(store))
    assert 4 <= finished < 21
    with local_client(1) as client:
        found = wd.gram(slow_kernel(0.2), x, client, store, block=10, progress=False)
    assert found.computed == 21 - finished
    assert_array_equal(np.asarray(found), dense(x))


RUN = textwrap.dedent(
    """
    import sys
    import numpy as np
    from tests.distributed.clusters import local_client, slow_kernel
    from widetail import distributed as wd

    if __name__ == "__main__":
        x = np.random.default_rng(0).normal(size=(60, 2))
        with local_client(1) as client:
            wd.gram(slow_kernel(0.5), x, client, sys.argv[1], block=10, progress=False)
    """
)


def test_the_client_is_killed_and_nobody_else_may_write_before(x, tmp_path):
    store, script = tmp_path / "K.zarr", tmp_path / "run.py"
    script.write_text(RUN)
    root = os.getcwd()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}
    process = subprocess.Popen([sys.executable, str(script), str(store)], env=environment)
    try:
        with local_client(1) as client:
            wait_for(lambda: len(tiles_in(store)) >= 3)
            with pytest.raises(wd.StoreBusyError, match=f"process {process.pid} on "):
                wd.gram(slow_kernel(0.5), x, client, store, block=10, progress=False)
            process.send_signal(signal.SIGKILL)
            process.wait()
            found = wd.gram(slow_kernel(0.5), x, client, store, block=10, progress=False)
    finally:
        process.kill()
        process.wait()
    assert 0 < found.computed <= 18
    assert_array_equal(np.asarray(found), dense(x))


@pytest.fixture
def small_disk(tmp_path):
    """A disk of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs the rights of an administrator")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_the_disk_is_full_until_there_is_room(small_disk):
    """A matrix of 2 MB on a disk of 1 MB; then the disk grows."""
    x, store = np.random.default_rng(0).normal(size=(500, 2)), small_disk / "K.zarr"
    with local_client(2) as client:
        with pytest.raises(wd.ClusterError, match=r"No space left on device.*make room"):
            wd.gram(slow_kernel(), x, client, store, block=100, progress=False)
        finished = len(tiles_in(store))
        assert 0 < finished < 15
        subprocess.run(["mount", "-o", "remount,size=8m", str(small_disk)], check=True)
        found = wd.gram(slow_kernel(), x, client, store, block=100, progress=False)
    assert 0 < found.computed <= 15 - finished, "a tile on its way when the disk was full may have found room"
    assert_array_equal(np.asarray(found), dense(x))


def test_a_task_that_kills_every_worker(x, tmp_path):
    def deadly(x1, x2):
        os.kill(os.getpid(), signal.SIGKILL)

    with local_client(1) as client, pytest.raises(wd.ClusterError, match="every time its worker died"):
        wd.gram(deadly, x, client, tmp_path / "K.zarr", progress=False)


def test_workers_that_take_no_tasks_are_not_waited_for(x, tmp_path, monkeypatch):
    monkeypatch.setattr("widetail.distributed._cluster.SECONDS_BETWEEN_COUNTS", 0.5)
    monkeypatch.setattr("widetail.distributed._cluster.SECONDS_WITHOUT_WORKERS", 1.0)
    waited_enough = pytest.raises(wd.ClusterError, match="for 1 seconds no worker")
    with local_client(1) as client:
        gram = wd.gram(slow_kernel(), x, client, tmp_path / "K.zarr", block=10, progress=False)
        client.cluster.scale(0)
        wait_for(lambda: not client.scheduler_info()["workers"])
        with waited_enough:
            wd.gram(slow_kernel(), x, client, tmp_path / "L.zarr", progress=False)
        with waited_enough:
            wd.cholesky(gram, client, tmp_path / "M.zarr", noise=0.1, progress=False)
    with dask.config.set({"distributed.worker.memory.pause": 0.001}), local_client(1, memory_limit="2GB") as client:
        wait_for(lambda: [one["status"] for one in client.scheduler_info()["workers"].values()] == ["paused"])
        with waited_enough:
            wd.cholesky(gram, client, tmp_path / "M.zarr", noise=0.1, progress=False)
