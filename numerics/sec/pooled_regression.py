"""Linear regression on the rows of several learners together, from each learner's means and products."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

_ROUNDING = 8 * np.finfo(np.float64).eps


def pooled_regression(
    n: Float64[np.ndarray, "L"], means: Float64[np.ndarray, "L q"], scatters: Float64[np.ndarray, "L q q"]
) -> Float64[np.ndarray, "q"]:
    """Solve the linear regression on all rows of several learners.

    The solution is exact: means and products about the means add up (Chan, Golub and LeVeque 1983). With constant or
    dependent inputs, it is the one of minimum norm.

    Parameters
    ----------
    n : ndarray
        ``(L,)`` number of rows of each learner.
    means : ndarray
        ``(L, q)`` means of its q - 1 inputs and, last, of the outcome.
    scatters : ndarray
        ``(L, q, q)`` sums of products of the deviations from these means.

    Returns
    -------
    ndarray
        ``(q,)`` coefficients, intercept first.

    Examples
    --------
    Two learners hold the rows ``(0, 1), (2, 5)`` and ``(1, 3)`` of ``y = 1 + 2 x``:

    >>> means = np.array([[1.0, 3.0], [1.0, 3.0]])
    >>> scatters = np.array([[[2.0, 4.0], [4.0, 8.0]], [[0.0, 0.0], [0.0, 0.0]]])
    >>> pooled_regression(np.array([2.0, 1.0]), means, scatters).tolist()
    [1.0, 2.0]
    """
    mean = n @ means / n.sum()
    apart = means - mean
    scatter = np.sum(scatters, axis=0) + (apart * n[:, np.newaxis]).T @ apart
    width = np.sqrt(np.diag(scatter)[:-1])
    # The mean of equal numbers has a rounding error: an input that varies no more is constant, with slope 0.
    varies = width > np.sqrt(n.sum()) * _ROUNDING * np.abs(means[:, :-1]).max(axis=0)
    unit = np.where(varies, 1 / np.where(varies, width, 1.0), 0.0)  # solved in units of each input's own spread
    inputs, outcome = scatter[:-1, :-1] * np.outer(unit, unit), scatter[:-1, -1] * unit
    slopes = np.linalg.lstsq(inputs, outcome, rcond=1e-12)[0] * unit
    return np.concatenate([[mean[-1] - mean[:-1] @ slopes], slopes])
