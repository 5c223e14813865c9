"""One thread for the numerical libraries: how they round depends on how many share the work."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


@contextmanager
def single_threaded() -> Iterator[None]:
    """Let BLAS and OpenMP work with one thread inside the ``with``.

    Their sums, and so k-means, eigenvectors and fitted models, are then the same bit for bit in every process,
    whatever number of threads it was given. What is imported inside the ``with`` brings libraries that do not know of
    it: import before, or enter once more. (SciPy has a BLAS of its own, beside NumPy's; scikit-learn brings OpenMP.)
    """
    with _libraries(len(sys.modules)).limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _libraries(_modules: int) -> ThreadpoolController:
    """Kept, because to look for the libraries takes milliseconds, as long as no other module has been imported.

    A controller knows what was loaded when it looked. To load all libraries here would take a second, which in
    deployment every ask would wait.
    """
    return ThreadpoolController()
