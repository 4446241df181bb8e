"""Running many tasks on a Dask cluster that may lose workers, data, or its scheduler."""

import asyncio
import concurrent.futures
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from widetail.distributed._errors import ClusterError
from widetail.progress import Progress, reporter

TASKS_PER_THREAD = 4  # waiting on the cluster: enough that no thread waits for the client
SECONDS_BETWEEN_COUNTS = 5.0
SMALL_BYTES = 100_000
LOSSES_ALLOWED = 3  # by one task, of what was scattered for it, when workers die
LOST = object()
SECONDS_WITHOUT_WORKERS = 300.0
SECONDS_BETWEEN_POLLS = 0.002
AT_WORK = ("executing", "long-running", "cancelled", "resumed")  # cancelled tasks run on until they end
GOES_ON = "What was finished is in the store: the same call goes on from there."


def check_client(client: Any) -> None:
    """Raise unless this is a blocking Dask client."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError("a cluster needs Dask and Zarr: pip install 'widetail[distributed]'.") from error
    if not isinstance(client, Client):
        raise ValueError(f"client must be a dask.distributed.Client, such as Client(LocalCluster()); got {client!r}.")
    if client.asynchronous:
        raise ValueError("client must block: it was made with asynchronous=True; use Client(...) without it.")


def announce(client: Any, progress: Progress, what: str) -> Callable[[int, int], None]:
    """Print the address of the dashboard; return a progress report, a function of (done, total)."""
    if progress is True:
        print(f"{what}: {len(client.scheduler_info()['workers'])} workers, {client.dashboard_link}", file=sys.stderr)
    return reporter(progress, what, lines=True)


def _scatter(client: Any, values: Any) -> Any:
    """Send data to a worker; retry, as one that died may be restarting."""
    try:
        client.wait_for_workers(1, timeout=SECONDS_WITHOUT_WORKERS)
    except TimeoutError:
        raise _nobody_works() from None
    return client.scatter(values, hash=False)


class Scattered:
    """Parts of the input, each sent to the cluster once, when first needed, and again only if it was lost."""

    def __init__(self, client: Any, part: Callable[[int], Any]):
        self.client, self.part = client, part
        self.futures: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        future = self.futures.get(index)
        if future is None or future.status in ("cancelled", "lost", "error"):
            future = _scatter(self.client, self.part(index))
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
    losses: dict[Any, int] = {}

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

    window = _Window(client)
    try:
        fill(window())
        while futures:
            future = _next(queue, client)
            task = futures.pop(future)
            result = _result_of(future)
            if result is not LOST:
                yield task, result
            elif future.status == "error":
                raise _explained(future.exception(), describe)
            else:  # cancelled: what it depended on is gone, or the scheduler is
                losses[task] = losses.get(task, 0) + 1
                if not _answers(client):
                    raise ClusterError(f"{describe}: the scheduler is gone. {GOES_ON}")
                if losses[task] > LOSSES_ALLOWED:
                    raise _deadly(describe, LOSSES_ALLOWED + 1, str(task))
                lost()
                add(task)
            future.release()
            fill(window())
    except (asyncio.CancelledError, concurrent.futures.CancelledError, OSError, TimeoutError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise _broken(describe, error) from error
    finally:
        _cancel(client, list(futures))


def _next(queue: Any, client: Any) -> Any:
    """The next finished future; an error instead of an endless wait when no worker takes tasks."""
    looked = worked = time.monotonic()
    while not queue.has_ready():
        time.sleep(SECONDS_BETWEEN_POLLS)
        now = time.monotonic()
        if now - looked < SECONDS_BETWEEN_COUNTS:
            continue
        looked = now
        if _somebody_works(client):
            worked = now
        elif now - worked > SECONDS_WITHOUT_WORKERS:
            raise _nobody_works()
    return next(queue)


def _somebody_works(client: Any) -> bool:
    """Whether any worker takes tasks or is still working on one."""
    workers = client.scheduler_info(n_workers=-1).get("workers", {}).values()
    return any(
        worker["status"] == "running" or any(worker["metrics"]["task_counts"].get(state) for state in AT_WORK)
        for worker in workers
    )


def _nobody_works() -> ClusterError:
    return ClusterError(
        f"for {SECONDS_WITHOUT_WORKERS:.0f} seconds no worker of the cluster has taken tasks: they are gone, or have "
        f"paused near their limit of memory. Start others, larger ones, or use smaller tiles (block=...). {GOES_ON}"
    )


def _result_of(future: Any) -> Any:
    """What a task returned; LOST where it failed, or where its worker died with the result before it was fetched."""
    if future.status != "finished":
        return LOST
    try:
        return future.result(timeout=SECONDS_WITHOUT_WORKERS)
    except (concurrent.futures.CancelledError, TimeoutError):
        return LOST


class _Window:
    """How many tasks to have on the cluster; updated now and then, because workers come and go."""

    def __init__(self, client: Any):
        self.client = client
        self.asked = float("-inf")
        self.tasks = 1

    def __call__(self) -> int:
        if time.monotonic() - self.asked > SECONDS_BETWEEN_COUNTS:
            self.tasks = TASKS_PER_THREAD * max(1, sum(self.client.nthreads().values()))
            self.asked = time.monotonic()
        return self.tasks


class Sent:
    """An array that all tasks need: part of each task if it is small, otherwise sent once, and again if it is lost."""

    def __init__(self, client: Any, values: Any):
        self.client, self.original = client, values
        self.send()

    def send(self) -> None:
        """Send it (again)."""
        is_small = self.original.nbytes < SMALL_BYTES
        self.values = self.original if is_small else _scatter(self.client, self.original)


def _answers(client: Any) -> bool:
    """Whether the scheduler is alive."""
    try:
        client.sync(client.scheduler.identity, callback_timeout=10)
    except Exception:
        return False
    return True


def _cancel(client: Any, futures: list[Any]) -> None:
    if futures and client.status == "running":
        client.cancel(futures)


def _broken(describe: str, error: BaseException) -> ClusterError:
    return ClusterError(f"{describe}: the connection to the cluster broke ({type(error).__name__}: {error}). {GOES_ON}")


def _deadly(describe: str, times: int, task: str) -> ClusterError:
    return ClusterError(
        f"{describe}: a task was tried {times} times, and every time its worker died; usually its memory was too "
        f"small. Use smaller tiles (block=...) or larger workers. {GOES_ON} ({task})"
    )


def _explained(error: BaseException, describe: str) -> BaseException:
    from distributed import KilledWorker

    if isinstance(error, KilledWorker):
        return _deadly(describe, error.allowed_failures + 1, repr(error.task))
    if isinstance(error, OSError) and error.errno is not None:
        return ClusterError(
            f"{describe}: a worker could not write ({error}). What was finished is in the store: make room, and the "
            f"same call goes on from there."
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
            future = _next(queue, client)
            result = _result_of(future)
            if result is LOST and future.status not in ("error", "cancelled"):
                # finished, but its worker died before the result was fetched: Dask runs it again
                queue.add(future)
                continue
            running -= 1
            pending.discard(future)
            if future.status == "error":
                raise _explained(future.exception(), describe)
            if result is LOST:
                raise ClusterError(
                    f"{describe}: the cluster lost its tasks ({future.status}), or its scheduler is gone. {GOES_ON}"
                )
            yield result
    except (asyncio.CancelledError, concurrent.futures.CancelledError, OSError, TimeoutError) as error:
        raise _broken(describe, error) from error
    finally:
        _cancel(client, list(pending))
