"""How many threads BLAS has, by the size of the work."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from widetail.numerics import FEW_OPERATIONS, CholeskyFactor, in_parallel, one_thread, threads_for


def blas_threads():
    return {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}


def test_one_thread_for_little_work_and_what_there_was_afterwards():
    with threadpool_limits(2, user_api="blas"):
        with threads_for(FEW_OPERATIONS / 2):
            assert blas_threads() == {1}
        assert blas_threads() == {2}
        with threads_for(2 * FEW_OPERATIONS):
            assert blas_threads() == {2}


def test_small_factorisations_use_it(monkeypatch):
    seen = []
    monkeypatch.setattr("widetail.numerics._blocks._potrf", lambda a, **_: (seen.append(blas_threads()), (a, 0))[1])
    with threadpool_limits(2, user_api="blas"):
        CholeskyFactor.of(np.eye(3))
    assert seen == [{1}]


def test_one_thread_until_the_outermost_is_left():
    with threadpool_limits(2, user_api="blas"):
        with one_thread():
            with one_thread():
                assert blas_threads() == {1}
            assert blas_threads() == {1}
        assert blas_threads() == {2}
        with pytest.raises(ValueError, match="inside"), one_thread():
            raise ValueError("inside")
        assert blas_threads() == {2}


def test_in_parallel_keeps_the_order_and_passes_errors_on(monkeypatch):
    monkeypatch.setattr("widetail.numerics._blas.cores", lambda: 3)
    for operations in (0, 1e12):
        assert in_parallel(lambda item: item**2, range(10), operations) == [item**2 for item in range(10)]
        with pytest.raises(ZeroDivisionError):
            in_parallel(lambda item: 1 / item, [1, 0, 2], operations)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("widetail")]


def test_what_is_shared_inside_of_shared_work_gets_the_cores_that_are_left(monkeypatch):
    # a second pool for every item would be threads that wait for each other
    monkeypatch.setattr("widetail.numerics._blas.cores", lambda: 2)
    gate = threading.Barrier(2)
    names: dict[int, set[str]] = {}

    def inner(number: int) -> str:
        return threading.current_thread().name

    def outer(item: int) -> list[str]:
        gate.wait(10)  # both are at it
        found = in_parallel(inner, range(8), 1e9)
        names[item] = set(found)
        gate.wait(10)
        return found

    in_parallel(outer, [0, 1], 1e9)
    assert [len(names[item]) for item in (0, 1)] == [1, 1]
    assert names[0] != names[1]
