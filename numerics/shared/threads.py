"""One thread for the numerical libraries, whose rounding depends on the number of threads."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


@contextmanager
def single_threaded() -> Iterator[None]:
    """Limit BLAS and OpenMP to one thread inside the ``with``.

    Their sums, and therefore k-means, eigenvectors and fitted models, are then equal to the bit in every process,
    whatever its number of threads is. Libraries that are imported inside the ``with`` are not limited: import them
    before. (SciPy has a BLAS of its own, in addition to NumPy's; scikit-learn has OpenMP.)

    Examples
    --------
    >>> import numpy as np
    >>> with single_threaded():
    ...     print(np.eye(2) @ np.ones(2))
    [1. 1.]
    """
    with _libraries(len(sys.modules)).limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _libraries(_modules: int) -> ThreadpoolController:
    """Return the loaded libraries, from a cache until another module is imported: the search takes milliseconds.

    A controller knows the libraries that were loaded at its search. Loading all of them first would take a second,
    for which every ask of a deployed site would wait.
    """
    return ThreadpoolController()
