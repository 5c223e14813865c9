"""A Gaussian process expert: the predictions that a site's rows give at query points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Int64
from scipy.linalg import lapack, solve_triangular

from numerics.gp.kernels import Kernel
from numerics.gp.likelihood import factor
from numerics.shared.folds import Persons

BLOCK = 4_000_000
"""Entries of a working array: 32 MB."""


class WeightedPrediction(NamedTuple):
    """Prediction of an expert at q query points.

    Attributes
    ----------
    mean : ndarray
        ``(q,)`` means (Jalali and Kasneci 2022, eq. 2).
    explained : ndarray
        ``(q,)`` explained variances, from 0 to k**: what eq. 3 subtracts from the prior variance k**, which is the
        variance of the prediction.
    weights : ndarray
        ``(n, q)`` weights of the rows: the mean at point q is ``weights[:, q] @ y``.
    """

    mean: Float64[np.ndarray, "q"]
    explained: Float64[np.ndarray, "q"]
    weights: Float64[np.ndarray, "n q"]


class FunctionalPrediction(NamedTuple):
    """Prediction of q linear functionals of the process.

    Attributes
    ----------
    mean : ndarray
        ``(q,)`` means.
    whitened, weights : ndarray
        ``(n, q)``: ``whitened' whitened`` is the covariance of the means, and ``weights' y`` are the means.
    """

    mean: Float64[np.ndarray, "q"]
    whitened: Float64[np.ndarray, "n q"]
    weights: Float64[np.ndarray, "n q"]


class LeftOut(NamedTuple):
    """Predictions of n rows of an expert, each without itself.

    Attributes
    ----------
    errors : ndarray
        ``(n,)`` outputs minus their predictions.
    variances : ndarray
        ``(n,)`` variances that the model gives the errors, noise included.
    rows : ndarray
        ``(n,)`` places of these rows among the expert's.
    """

    errors: Float64[np.ndarray, "n"]
    variances: Float64[np.ndarray, "n"]
    rows: Int64[np.ndarray, "n"]

    @property
    def residuals(self) -> Float64[np.ndarray, "n"]:
        """``(n,)`` errors over their standard deviations."""
        return np.asarray(self.errors / np.sqrt(self.variances))


class Expert:
    """A Gaussian process of some rows, whose covariance matrix is factorized once.

    Parameters
    ----------
    kernel : Kernel
        Covariance of the process.
    theta : ndarray
        The kernel's parameters and, last, the logarithm of the noise's standard deviation.
    x, y : ndarray
        ``(n, d)`` and ``(n,)`` rows in standardized units, ``n >= 1``.
    noise : ndarray, optional
        ``(n,)`` known variances of the rows' own noise, beside that of theta.

    Raises
    ------
    numpy.linalg.LinAlgError
        If the rows' covariance matrix has no Cholesky factor at this theta.

    Examples
    --------
    With little noise, the prediction at a row is its output, and almost all variance is explained:

    >>> from numerics.gp.radial_kernels import SquaredExponential
    >>> theta = np.log([1.0, 1.0, 0.01])  # length, deviation, noise
    >>> expert = Expert(SquaredExponential(1), theta, np.array([[0.0], [1.0]]), np.array([0.0, 2.0]))
    >>> mean, explained = expert.predict(np.array([[1.0], [9.0]]))
    >>> mean.round(2), explained.round(2)
    (array([2., 0.]), array([1., 0.]))
    """

    def __init__(
        self,
        kernel: Kernel,
        theta: Float64[np.ndarray, "p"],
        x: Float64[np.ndarray, "n d"],
        y: Float64[np.ndarray, "n"],
        noise: Float64[np.ndarray, "n"] | None = None,
    ) -> None:
        self.kernel, self.params, self.x, self.y = kernel, theta[:-1], x, y
        self._factor = factor(kernel, theta, x, noise)
        self._whitened = solve_triangular(self._factor, y, lower=True, check_finite=False)

    def predict(self, points: Float[np.ndarray, "q d"]) -> tuple[Float64[np.ndarray, "q"], Float64[np.ndarray, "q"]]:
        """Predict at points in standardized units: mean and explained variance, ``(q,)`` (`WeightedPrediction`)."""
        points = np.asarray(points, dtype=np.float64)
        mean, explained = np.empty(len(points)), np.empty(len(points))
        for some in blocks(len(points), len(self.x)):
            mean[some], explained[some], _ = self._prediction(points[some])
        return mean, explained

    def answer(self, points: Float[np.ndarray, "q d"]) -> WeightedPrediction:
        """Predict as `predict`, with the weights of the rows, for at most one block of points (`blocks`)."""
        mean, explained, whitened = self._prediction(np.asarray(points, dtype=np.float64))
        weights = solve_triangular(self._factor, whitened, lower=True, trans=1, overwrite_b=True, check_finite=False)
        return WeightedPrediction(mean, explained, weights)

    def predict_functionals(self, cross: Float64[np.ndarray, "n q"]) -> FunctionalPrediction:
        """Predict linear functionals of the process from their covariances with its values at the n rows."""
        whitened = solve_triangular(self._factor, cross, lower=True, check_finite=False)
        weights = solve_triangular(self._factor, whitened, lower=True, trans=1, check_finite=False)
        return FunctionalPrediction(self._whitened @ whitened, whitened, weights)

    def left_out(self, person: Persons = None) -> LeftOut:
        """Predict every row from the others, or from those of other persons.

        With ``a = Z^-1 y``, errors are ``a / diag(Z^-1)``, their variances ``1 / diag(Z^-1)`` (Sundararajan and Keerthi
        2001). Rows that are left out together have the errors ``B^-1 a`` and the covariance ``B^-1``, with their blocks
        of a and ``B = Z^-1``.

        Examples
        --------
        One row is predicted by the prior, here with a deviation of 2:

        >>> from numerics.gp.radial_kernels import SquaredExponential
        >>> theta = np.log([1.0, np.sqrt(3.0), 1.0])
        >>> Expert(SquaredExponential(1), theta, np.zeros((1, 1)), np.array([3.0])).left_out().residuals
        array([1.5])
        """
        weights = solve_triangular(self._factor, self._whitened, lower=True, trans=1, check_finite=False)
        lower = lapack.dtrtri(self._factor, lower=1)[0]
        diagonal = np.einsum("ij,ij->j", lower, lower)
        errors, variances = weights / diagonal, 1.0 / diagonal
        if person is not None:
            number, size = np.unique(person, return_inverse=True, return_counts=True)[1:]
            for several in np.flatnonzero(size > 1):
                rows = np.flatnonzero(number == several)
                covariance = np.linalg.inv(lower[:, rows].T @ lower[:, rows])
                errors[rows], variances[rows] = covariance @ weights[rows], covariance.diagonal()
        return LeftOut(errors, variances, np.arange(len(self.y)))

    def _prediction(
        self, points: Float64[np.ndarray, "q d"]
    ) -> tuple[Float64[np.ndarray, "q"], Float64[np.ndarray, "q"], Float64[np.ndarray, "n q"]]:
        cross = self.kernel.matrix(self.params, self.x, points)
        whitened = solve_triangular(self._factor, cross, lower=True, overwrite_b=True, check_finite=False)
        explained = np.einsum("nq,nq->q", whitened, whitened)
        # Rounding may take a query at a row of almost no noise a little above the prior variance.
        return self._whitened @ whitened, np.minimum(explained, self.kernel.diagonal(self.params, points)), whitened


def blocks(count: int, numbers: int) -> Iterator[slice]:
    """Cut `count` points into slices whose working arrays, of `numbers` entries per point, have about `BLOCK` entries.

    Examples
    --------
    >>> list(blocks(5, BLOCK // 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    size = max(1, BLOCK // max(1, numbers))
    for start in range(0, count, size):
        yield slice(start, min(start + size, count))
