"""Clusters of real processes on this machine."""

import contextlib
import logging
import os
import subprocess
import sys
import time

import dask
import numpy as np
from distributed import Client, LocalCluster


@contextlib.contextmanager
def local_client(workers=2, **options):
    """A client of workers in processes of their own, with one thread each."""
    settings = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": logging.CRITICAL}
    # by default LocalCluster gives up a worker that happens to be restarting 15 seconds after an earlier one has died
    patient = dask.config.set({"distributed.deploy.lost-worker-timeout": "10m"})
    with patient, LocalCluster(n_workers=workers, **(settings | options)) as cluster, Client(cluster) as client:
        yield client


@contextlib.contextmanager
def separate_cluster(folder, workers=1):
    """A scheduler and workers started by hand, as on several machines; yields client and process of the scheduler."""
    address_file = folder / "scheduler.json"
    address_file.unlink(missing_ok=True)
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    common = ["--scheduler-file", str(address_file), "--no-dashboard"]
    scheduler = subprocess.Popen([sys.executable, "-m", "dask", "scheduler", "--port", "0", *common], **quiet)
    started = [scheduler]
    try:
        while not address_file.exists():
            assert scheduler.poll() is None
            time.sleep(0.1)
        for _ in range(workers):
            arguments = ["worker", "--nthreads", "1", "--no-nanny", "--death-timeout", "60", *common]
            started.append(subprocess.Popen([sys.executable, "-m", "dask", *arguments], **quiet))
        client = Client(scheduler_file=str(address_file), timeout=60)
        try:
            client.wait_for_workers(workers, timeout=120)
            yield client, scheduler
        finally:
            client.close(timeout=5)
    finally:
        for process in started:
            process.kill()
            process.wait()


def slow_kernel(seconds=0.0, marks=None):
    """A kernel of the user's own that takes its time, and leaves a file with its process in `marks` for every tile."""

    def kernel(x1, x2):
        if marks is not None:
            with open(os.path.join(marks, f"{os.getpid()}-{time.time_ns()}"), "w"):
                pass
        time.sleep(seconds)
        squared = np.sum((x1[:, None] - x2[None]) ** 2, axis=-1)
        return np.exp(-0.5 * squared)

    return kernel


def dense(x):
    """The matrix of `slow_kernel`."""
    return slow_kernel()(x, x)
