"""The rows of a supervised regression, as a learner holds them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64


@dataclass(frozen=True)
class RegressionRows:
    """Inputs and outcomes of one learner.

    Attributes
    ----------
    x : ndarray
        ``(n, p)`` inputs it learns from, finite.
    y : ndarray
        ``(n,)`` their outcomes, finite.
    x_test, y_test : ndarray
        ``(t, p)`` and ``(t,)``, rows that are only used to measure the error of a prediction; ``t`` may be 0.
    features : tuple of str
        Names of the p inputs; the learners of a run have the same.
    """

    x: Float64[np.ndarray, "n p"]
    y: Float64[np.ndarray, "n"]
    x_test: Float64[np.ndarray, "t p"]
    y_test: Float64[np.ndarray, "t"]
    features: tuple[str, ...]

    @property
    def n(self) -> int:
        """Number of rows it learns from."""
        return len(self.y)

    def standardised(self) -> RegressionRows:
        """Every input, and the outcome, less its mean and over its standard deviation in the rows it learns from.

        What does not vary is only centred. The test rows are moved and scaled as the others are.
        """
        x_mean, y_mean = self.x.mean(axis=0), self.y.mean()
        # Not told by the deviation: that of equal numbers may be a rounding error, which division would blow up to 1.
        x_scale = np.where(np.ptp(self.x, axis=0) > 0, self.x.std(axis=0), 1.0)
        y_scale = self.y.std() if np.ptp(self.y) > 0 else 1.0
        return replace(
            self,
            x=(self.x - x_mean) / x_scale,
            y=(self.y - y_mean) / y_scale,
            x_test=(self.x_test - x_mean) / x_scale,
            y_test=(self.y_test - y_mean) / y_scale,
        )
