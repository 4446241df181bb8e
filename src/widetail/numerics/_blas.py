"""Threads of BLAS and LAPACK, and threads of our own in their place.

Threads of OpenBLAS wait for each other by spinning. On an idle machine that is fast; beside other work each of them
spins for as long as another process has the core of the one it waits for: a factorisation of 200 rows then took 500 ms
instead of 1, and NumPy's threads spin beside SciPy's, which are others. So large matrices are cut into blocks
(`_blocks`), every block is done by one thread of BLAS, and the blocks by threads of ours, which sleep when they wait.
"""

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

# About 50 ms of one core. Work that is not cut into blocks gets the threads of BLAS from here on.
FEW_OPERATIONS = 3e8
# About 5 ms: less is not worth starting threads for.
FEW_TO_SHARE = 3e7

Item = TypeVar("Item")


def threads_for(operations: int | float) -> contextlib.AbstractContextManager[Any]:
    """A context in which BLAS has one thread for few operations, and all threads for many.

    Args:
        operations: multiplications, about.
    """
    return contextlib.nullcontext() if operations >= FEW_OPERATIONS else one_thread()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """A context in which BLAS has one thread, and afterwards as many as before; nested, it costs nothing more."""
    if getattr(_inside, "is_limited", False):
        yield
        return
    with _libraries().limit(limits=1, user_api="blas"):
        _inside.is_limited = True
        try:
            yield
        finally:
            _inside.is_limited = False


def in_parallel(work: Callable[[Item], Any], items: Sequence[Item], operations: int | float) -> list[Any]:
    """Results of `work` for every item, in their order; on all cores where there is enough to do.

    Args:
        work: what calls BLAS or NumPy, which let other threads run meanwhile.
        items: independent of each other.
        operations: of all items together, about.
    """
    free = _free_cores()
    threads = min(free, len(items))
    if threads <= 1 or operations < FEW_TO_SHARE:
        return [work(item) for item in items]
    siblings = _Siblings(free, len(items))
    with one_thread(), ThreadPoolExecutor(threads, thread_name_prefix="widetail") as pool:
        return list(pool.map(functools.partial(siblings.run, work), items))


class _Siblings:
    """Items that are worked on side by side; what one of them shares out in turn gets the cores that others leave."""

    def __init__(self, cores: int, items: int):
        self.cores, self.left = cores, items
        self.lock = threading.Lock()

    def run(self, work: Callable[[Item], Any], item: Item) -> Any:
        _inside.siblings, _inside.is_limited = self, True  # by the thread that waits for this one
        try:
            return work(item)
        finally:
            with self.lock:
                self.left -= 1


def _free_cores() -> int:
    siblings: _Siblings | None = getattr(_inside, "siblings", None)
    return cores() if siblings is None else siblings.cores // max(siblings.left, 1)


def cores() -> int:
    """The cores that this process may use, and no more than OMP_NUM_THREADS: joblib sets that for its workers."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    said = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return min(there, int(said)) if said.isdigit() and int(said) > 0 else there


_inside = threading.local()


@functools.cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()  # finds the libraries that are loaded by now: takes milliseconds, so once
