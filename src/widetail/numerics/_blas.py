"""Threads of BLAS and LAPACK, by the size of the work."""

import contextlib
import functools
from typing import Any

# About 50 ms of one core. Below it, a second thread gains little on an idle machine, and on a busy one it loses
# everything: threads of OpenBLAS wait for each other by spinning, each time for as long as another process has the
# core. A factorisation of 200 rows then took 500 ms instead of 1.
FEW_OPERATIONS = 3e8


def threads_for(operations: int | float) -> contextlib.AbstractContextManager[Any]:
    """A context in which few operations are done by one thread, and many by as many as there are.

    Args:
        operations: multiplications, about.
    """
    if operations >= FEW_OPERATIONS:
        return contextlib.nullcontext()
    return _libraries().limit(limits=1, user_api="blas")


@functools.cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()  # finds the libraries that are loaded by now: takes milliseconds, so once
