"""One thread for the numerical libraries: how they round depends on how many share the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController


@contextmanager
def single_threaded() -> Iterator[None]:
    """Let BLAS and OpenMP work with one thread inside the ``with``.

    Their sums, and so k-means, eigenvectors and fitted models, are then the same bit for bit in every process,
    whatever number of threads it was given.
    """
    with _libraries().limit(limits=1):
        yield


@cache
def _libraries() -> ThreadpoolController:
    """Kept, because to look for the libraries takes milliseconds."""
    # A controller knows what was loaded when it looked. These two bring all there is: SciPy a BLAS of its own, beside
    # NumPy's, and scikit-learn OpenMP.
    import scipy.linalg  # noqa: F401
    import sklearn.cluster  # noqa: F401

    return ThreadpoolController()
