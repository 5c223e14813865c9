"""One Gaussian process expert: what a site's rows say about query points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64
from scipy.linalg import solve_triangular

from numerics.gp.kernels import Kernel
from numerics.gp.likelihood import factor

BLOCK = 4_000_000
"""Numbers of a working array: 32 MB."""


class WeightedPrediction(NamedTuple):
    """What an expert knows about q query points.

    Attributes
    ----------
    mean : ndarray
        ``(q,)`` of its prediction (Jalali and Kasneci 2022, eq. 2).
    explained : ndarray
        ``(q,)`` variance of the prediction, which is the variance that the expert's rows take away from the prior's
        k**: from 0 to k**; what eq. 3 subtracts.
    weights : ndarray
        ``(n, q)`` of its rows: the prediction at point q is ``weights[:, q] @ y``.
    """

    mean: Float64[np.ndarray, "q"]
    explained: Float64[np.ndarray, "q"]
    weights: Float64[np.ndarray, "n q"]


class Expert:
    """The Gaussian process of some rows, factorised once.

    Parameters
    ----------
    kernel : Kernel
        Covariance of the process.
    theta : ndarray
        The kernel's parameters and, last, the logarithm of the noise's standard deviation.
    x, y : ndarray
        ``(n, d)`` and ``(n,)`` rows in standardised units, ``n >= 1``.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the rows' covariance matrix has no factor at this theta.
    """

    def __init__(
        self,
        kernel: Kernel,
        theta: Float64[np.ndarray, "p"],
        x: Float64[np.ndarray, "n d"],
        y: Float64[np.ndarray, "n"],
    ) -> None:
        self.kernel, self.params, self.x, self.y = kernel, theta[:-1], x, y
        self._factor = factor(kernel, theta, x)
        self._whitened = solve_triangular(self._factor, y, lower=True, check_finite=False)

    def predict(self, points: Float[np.ndarray, "q d"]) -> tuple[Float64[np.ndarray, "q"], Float64[np.ndarray, "q"]]:
        """Mean ``(q,)`` and explained variance ``(q,)``, see `WeightedPrediction`, at points in standardised units."""
        points = np.asarray(points, dtype=np.float64)
        mean, explained = np.empty(len(points)), np.empty(len(points))
        for some in blocks(len(points), len(self.x)):
            mean[some], explained[some], _ = self._prediction(points[some])
        return mean, explained

    def answer(self, points: Float[np.ndarray, "q d"]) -> WeightedPrediction:
        """`predict` with the rows' weights, for as many points as `blocks` would take together."""
        mean, explained, whitened = self._prediction(np.asarray(points, dtype=np.float64))
        weights = solve_triangular(self._factor, whitened, lower=True, trans=1, overwrite_b=True, check_finite=False)
        return WeightedPrediction(mean, explained, weights)

    def _prediction(
        self, points: Float64[np.ndarray, "q d"]
    ) -> tuple[Float64[np.ndarray, "q"], Float64[np.ndarray, "q"], Float64[np.ndarray, "n q"]]:
        cross = self.kernel.matrix(self.params, self.x, points)
        whitened = solve_triangular(self._factor, cross, lower=True, overwrite_b=True, check_finite=False)
        explained = np.einsum("nq,nq->q", whitened, whitened)
        # Rounding may take a query at a row of almost no noise a little beyond what there is to explain.
        return self._whitened @ whitened, np.minimum(explained, self.kernel.diagonal(self.params, points)), whitened


def blocks(count: int, numbers: int) -> Iterator[slice]:
    """Slices of ``count`` points such that ``numbers`` for each of them make about `BLOCK` numbers."""
    size = max(1, BLOCK // max(1, numbers))
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
