"""How many threads BLAS has, by the size of the work."""

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from widetail.numerics import FEW_OPERATIONS, CholeskyFactor, threads_for


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
