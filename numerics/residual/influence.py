"""Errors of a combination without each agent."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from numerics.residual.linear import solve
from numerics.residual.rules import Without
from numerics.residual.split import Split

_STANDARD_ERRORS = 3.0
"""Standard errors of a mean difference that chance explains."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Products of predictions and outcomes of the training rows, by which agents are combined anew.

    Attributes
    ----------
    gram : ndarray
        ``(D, D)``, ``F F'``.
    right : ndarray
        ``(D,)``, ``F y``.
    """

    gram: Float64[np.ndarray, "D D"]
    right: Float64[np.ndarray, "D"]

    @classmethod
    def of(cls, F: Float64[np.ndarray, "D n"], y: Float64[np.ndarray, "n"], split: Split) -> Moments:
        """Compute the products of predictions of all rows; outcomes minus the mean."""
        fitted = F[:, : split.n_fit]
        return cls(fitted @ fitted.T, fitted @ y[: split.n_fit])

    def combined_without(self, left_out: Collection[int], ridge: float) -> Float64[np.ndarray, "D"]:
        """Combine all agents but these on the training rows (eq. 35); the others' coefficients are 0.

        `ridge` is that of `numerics.residual.linear.combine`.
        """
        beta: Float64[np.ndarray, "D"] = np.zeros(len(self.right))
        rest = np.setdiff1d(np.arange(len(beta)), np.array(sorted(left_out), np.int64))
        if len(rest):
            gram = self.gram[np.ix_(rest, rest)]
            gram[np.diag_indices_from(gram)] += ridge * np.diag(gram).mean()
            beta[rest] = solve(gram, self.right[rest])
        return beta


def without_each(F: Float64[np.ndarray, "D n"], y: Float64[np.ndarray, "n"], split: Split, ridge: float) -> Without:
    """Return the errors without each agent, the others combined anew by least squares.

    Parameters
    ----------
    F : ndarray
        ``(D, n)`` predictions of all rows.
    y : ndarray
        ``(n,)`` outcomes minus the mean.
    split : Split
        Use of these rows.
    ridge : float
        As in `numerics.residual.linear.combine`.

    Examples
    --------
    >>> F, y = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]]), np.array([1.0, -1.0, 3.0])
    >>> without_each(F, y, Split(3, 0, 0), ridge=0).errors[:, 0].round(6)
    array([0.666667, 3.      ])
    """
    moments = Moments.of(F, y, split)
    betas = np.array([moments.combined_without([j], ridge) for j in range(len(F))]).reshape(len(F), len(F))
    return compare(y - moments.combined_without([], ridge) @ F, y - betas @ F, split)


def compare(with_all: Float64[np.ndarray, "n"], without: Float64[np.ndarray, "D n"], split: Split) -> Without:
    """Return the mean squared errors without each agent, and by how much each agent raises them beyond chance.

    Parameters
    ----------
    with_all, without : ndarray
        ``(n,)`` residuals with all agents, and ``(D, n)`` without each.
    split : Split
        Use of the rows.

    Examples
    --------
    >>> residual = np.array([1.0, -1.0, 1.0, -1.0])
    >>> each = compare(9 * residual, np.stack([residual, 9 * residual]), Split(4, 0, 0))
    >>> each.errors[:, 0], each.harm[:, 0]
    (array([ 1., 81.]), array([80.,  0.]))
    """
    errors = np.array([split.errors(each) for each in without]).reshape(len(without), 3)
    return Without(errors, harm_of(with_all**2, without**2, split))


def harm_of(
    with_all: Float64[np.ndarray, "n"], without: Float64[np.ndarray, "D n"], split: Split
) -> Float64[np.ndarray, "D 3"]:
    """Return by how much each agent raises the mean loss beyond chance (`Without.harm`).

    Parameters are losses of all rows, with all agents and without each.
    """
    harm = np.full((len(without), 3), -np.inf)
    for kind, rows in enumerate(split.slices):
        gains = with_all[rows] - without[:, rows]
        if (n := gains.shape[1]) > 1:
            harm[:, kind] = gains.mean(axis=1) - _STANDARD_ERRORS * gains.std(axis=1, ddof=1) / np.sqrt(n)
    return harm
