"""Limits of BLAS: they hold in whichever thread sets them."""

from __future__ import annotations

import threading

import scipy.linalg  # noqa: F401 - its BLAS is not NumPy's
from threadpoolctl import ThreadpoolController, threadpool_limits

from epoxy.neighbors.workers import single_threaded_blas


def threads_now() -> set[int]:
    found = ThreadpoolController().select(user_api="blas").info()
    return {each["num_threads"] for each in found}


def in_a_thread(work) -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_a_product_uses_one_thread_also_where_another_thread_set_a_limit_before():
    seen = []

    def limited() -> None:
        with single_threaded_blas():
            seen.append(threads_now())
        seen.append(threads_now())

    with threadpool_limits(2, "blas"):  # as the studio's main thread may have done
        in_a_thread(limited)
        in_a_thread(limited)  # and another after it

    assert seen == 2 * [{1}, {2}]


def test_of_blocks_that_overlap_in_threads_the_last_lifts_the_limit():
    entered, leave, seen = threading.Event(), threading.Event(), []

    def first() -> None:
        with single_threaded_blas():
            entered.set()
            leave.wait(30)

    with threadpool_limits(2, "blas"):
        thread = threading.Thread(target=first)
        thread.start()
        entered.wait(30)
        with single_threaded_blas():
            leave.set()
            thread.join()
            seen.append(threads_now())
        seen.append(threads_now())

    assert seen == [{1}, {2}]
