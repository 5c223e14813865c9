"""One thread for the numerical libraries, and as many as before afterwards."""

from __future__ import annotations

from threadpoolctl import threadpool_info, threadpool_limits

from numerics.shared.threads import single_threaded


def numbers() -> set[int]:
    """Of threads, over all libraries."""
    return {each["num_threads"] for each in threadpool_info()}


def test_every_library_has_one_thread_and_gets_its_own_back() -> None:
    with single_threaded():
        assert numbers() == {1}
    with threadpool_limits(limits=2):
        assert numbers() == {2}
        with single_threaded():
            assert numbers() == {1}
            with single_threaded():
                assert numbers() == {1}
            assert numbers() == {1}
        assert numbers() == {2}
