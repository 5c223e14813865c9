"""Errors of a combination without each agent, from products of the predictions."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from numerics.residual.linear import solve
from numerics.residual.rules import Split


@dataclass(frozen=True, eq=False)
class Moments:
    """Products of predictions and outcomes by kind of row: training, validation, test.

    By them agents can be combined anew, without the predictions themselves.

    Attributes
    ----------
    gram : ndarray
        ``(3, D, D)``, ``F F'`` of each kind of row.
    right : ndarray
        ``(3, D)``, ``F y``.
    power : ndarray
        ``(3,)``, ``|y|^2``.
    count : ndarray
        ``(3,)`` numbers of rows.
    """

    gram: Float64[np.ndarray, "3 D D"]
    right: Float64[np.ndarray, "3 D"]
    power: Float64[np.ndarray, "3"]
    count: Float64[np.ndarray, "3"]

    @classmethod
    def of(cls, F: Float64[np.ndarray, "D n"], y: Float64[np.ndarray, "n"], split: Split) -> Moments:
        """Compute the products of predictions of all rows; outcomes minus the mean."""
        parts = [(F[:, rows], y[rows]) for rows in split.slices]
        return cls(
            np.stack([each @ each.T for each, _ in parts]),
            np.stack([each @ outcomes for each, outcomes in parts]),
            np.array([outcomes @ outcomes for _, outcomes in parts]),
            np.array([float(len(outcomes)) for _, outcomes in parts]),
        )

    def after(self, j: int, F: Float64[np.ndarray, "D n"], y: Float64[np.ndarray, "n"], split: Split) -> Moments:
        """Return the products after agent j alone has changed its predictions."""
        gram, right = self.gram.copy(), self.right.copy()
        for kind, rows in enumerate(split.slices):
            gram[kind, j] = gram[kind, :, j] = F[:, rows] @ F[j, rows]
            right[kind, j] = F[j, rows] @ y[rows]
        return Moments(gram, right, self.power, self.count)

    def errors(self, beta: Float64[np.ndarray, "D"]) -> Float64[np.ndarray, "3"]:
        """Return the mean squared errors of a combination by kind of row; NaN for a kind without rows."""
        power = self.power - 2 * (self.right @ beta) + (self.gram @ beta) @ beta
        errors: Float64[np.ndarray, "3"] = np.divide(
            np.maximum(power, 0.0), self.count, out=np.full(3, np.nan), where=self.count > 0
        )
        return errors

    def errors_without(self, ridge: float) -> Float64[np.ndarray, "D 3"]:
        """Return the errors without each agent, the others combined anew by least squares.

        Parameters
        ----------
        ridge : float
            As of `numerics.residual.linear.combine`.

        Examples
        --------
        >>> F, y = np.array([[1.0, -1.0, 0.0], [0.0, 0.0, 1.0]]), np.array([1.0, -1.0, 3.0])
        >>> Moments.of(F, y, Split(3, 0, 0)).errors_without(ridge=0)[:, 0].round(6)
        array([0.666667, 3.      ])
        """
        D = self.right.shape[1]
        return np.array([self.errors(self.combined_without([j], ridge)) for j in range(D)]).reshape(D, 3)

    def combined_without(self, left_out: Collection[int], ridge: float) -> Float64[np.ndarray, "D"]:
        """Combine all agents but these on the training rows (eq. 35); the others' coefficients are 0."""
        beta: Float64[np.ndarray, "D"] = np.zeros(self.right.shape[1])
        rest = np.setdiff1d(np.arange(len(beta)), np.array(sorted(left_out), np.int64))
        if len(rest):
            gram = self.gram[0][np.ix_(rest, rest)]
            gram[np.diag_indices_from(gram)] += ridge * np.diag(gram).mean()
            beta[rest] = solve(gram, self.right[0, rest])
        return beta
