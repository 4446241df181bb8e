"""Running many tasks on a Dask cluster that may lose workers, data, or its scheduler."""

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from widetail._progress import Progress, reporter
from widetail.distributed._errors import ClusterError

TASKS_PER_THREAD = 4  # waiting on the cluster: enough that no thread waits for the client
LOSSES_ALLOWED = 20  # of scattered data, when workers die


def check_client(client: Any) -> None:
    """Refuse anything but a Dask client that blocks."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError("a cluster needs Dask and Zarr: pip install 'widetail[distributed]'.") from error
    if not isinstance(client, Client):
        raise ValueError(f"client must be a dask.distributed.Client, such as Client(LocalCluster()); got {client!r}.")
    if client.asynchronous:
        raise ValueError("client must block: it was made with asynchronous=True; use Client(...) without it.")


def announce(client: Any, progress: Progress, what: str) -> Callable[[int, int], None]:
    """Print where the dashboard is; a function of (done, total) that tells how far the run has come."""
    if progress is True:
        print(f"{what}: {len(client.scheduler_info()['workers'])} workers, {client.dashboard_link}", file=sys.stderr)
    return reporter(progress, what, lines=True)


class Scattered:
    """Parts of the input, each sent to the cluster once, when first needed, and again only if it was lost."""

    def __init__(self, client: Any, part: Callable[[int], Any]):
        self.client, self.part = client, part
        self.futures: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        future = self.futures.get(index)
        if future is None or future.status in ("cancelled", "lost", "error"):
            future = self.client.scatter(self.part(index), hash=False)
            self.futures[index] = future
        return future

    def forget(self) -> None:
        """Send everything again."""
        self.futures.clear()


def run_tasks(
    client: Any,
    submit: Callable[[Any], Any],
    tasks: Iterable[Any],
    lost: Callable[[], None],
    describe: str,
) -> Iterator[tuple[Any, Any]]:
    """Run tasks on the cluster, as many at a time as keep it busy; yields (task, result) in any order.

    Dask gives the tasks of a dead worker to others, and repeats those that raise as often as `submit` asked for. Data
    that was scattered to a dead worker cannot be made again by Dask: the tasks that needed it come back cancelled, and
    are submitted anew.

    Args:
        client: of the cluster.
        submit: gives the task to the cluster; returns its future.
        tasks: anything.
        lost: called when data was lost, before tasks are submitted again.
        describe: names the work in messages.
    """
    from distributed import as_completed

    waiting = iter(tasks)
    futures: dict[Any, Any] = {}
    queue = as_completed(loop=client.loop)
    losses = 0

    def fill(window: int) -> None:
        while len(futures) < window:
            try:
                task = next(waiting)
            except StopIteration:
                return
            add(task)

    def add(task: Any) -> None:
        future = submit(task)
        futures[future] = task
        queue.add(future)

    try:
        fill(_window(client))
        while futures:
            future = next(queue)
            task = futures.pop(future)
            if future.status == "finished":
                yield task, future.result()
            elif future.status == "error":
                raise _explained(future.exception(), describe)
            else:  # cancelled: what it depended on is gone, or the scheduler is
                losses += 1
                if losses > LOSSES_ALLOWED or not _answers(client):
                    raise ClusterError(
                        f"{describe}: the scheduler at {client.scheduler.address if client.scheduler else '?'} is gone "
                        f"or lost its data too often. What was finished is in the store: the same call goes on from there."
                    )
                lost()
                add(task)
            future.release()
            fill(_window(client))
    except (asyncio.CancelledError, OSError, TimeoutError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ClusterError(
            f"{describe}: the connection to the cluster broke ({type(error).__name__}: {error}). What was finished is in "
            f"the store: the same call goes on from there."
        ) from error
    finally:
        client.cancel(list(futures)) if futures and client.status == "running" else None


def _window(client: Any) -> int:
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    return TASKS_PER_THREAD * max(1, sum(worker["nthreads"] for worker in workers))


def _answers(client: Any) -> bool:
    """Whether the scheduler is alive."""
    try:
        client.sync(client.scheduler.identity, callback_timeout=10)
    except Exception:
        return False
    return True


def _explained(error: BaseException, describe: str) -> BaseException:
    from distributed import KilledWorker

    if isinstance(error, KilledWorker):
        return ClusterError(
            f"{describe}: a task was tried {error.allowed_failures + 1} times, and every time its worker died; usually "
            f"its memory was too small. Use smaller tiles (block=...) or larger workers. What was finished is in the "
            f"store: the same call goes on from there. ({error.task!r})"
        )
    if isinstance(error, OSError):
        return ClusterError(
            f"{describe}: a worker could not write ({error}). What was finished is in the store: make room, and the same "
            f"call goes on from there."
        ).with_traceback(error.__traceback__)
    return error


def run_graph(
    client: Any, submit: Callable[[Any], Any], tasks: Iterable[Any], *, window: int, describe: str
) -> Iterator[Any]:
    """Run tasks that depend on earlier ones, in their order, with at most `window` of them on the cluster at a time.

    `submit` gives a task to the cluster together with the futures that it needs, or returns None for one that was done
    before. Yields one result per task, in any order, None for those.
    """
    from distributed import as_completed

    waiting, queue, running = iter(tasks), as_completed(loop=client.loop), 0
    exhausted = False
    pending: set[Any] = set()
    try:
        while True:
            while not exhausted and running < window:
                task = next(waiting, None)
                if task is None:
                    exhausted = True
                    break
                future = submit(task)
                if future is None:
                    yield None
                    continue
                queue.add(future)
                pending.add(future)
                running += 1
            if not running:
                return
            future = next(queue)
            running -= 1
            pending.discard(future)
            if future.status == "error":
                raise _explained(future.exception(), describe)
            if future.status != "finished":
                raise ClusterError(
                    f"{describe}: the cluster lost its tasks, or its scheduler is gone. What was finished is in the store: "
                    f"the same call goes on from there."
                )
            yield future.result()
    except (asyncio.CancelledError, OSError, TimeoutError) as error:
        raise ClusterError(
            f"{describe}: the connection to the cluster broke ({type(error).__name__}: {error}). What was finished is in "
            f"the store: the same call goes on from there."
        ) from error
    finally:
        client.cancel(list(pending)) if pending and client.status == "running" else None
