"""Calibrated intervals: quantiles of leave-one-out residuals in place of those of the normal distribution.

Each expert predicts each of its rows from its other rows, in closed form. The residuals, divided by the model's
deviations, would be standard normal if the model were right. Real errors have heavier tails: the model's inner
intervals are too wide and its outer ones too narrow. The quantiles of the residuals' sizes, over the rows of all sites,
correct both. An expert of very many rows predicts a sample of them, whose counts stand for all of its rows.

The hyperparameters were fitted to all rows, which makes residuals a little too small. By Akaike's criterion (1974), p
parameters raise the log likelihood of n rows by p over that of new ones. If all of that were due to scale, the variance
of new errors would be larger by the factor 1 + 2 p / n. Sizes are stretched accordingly.

Source of the residuals: Sundararajan and Keerthi: Predictive approaches for choosing hyperparameters in Gaussian
processes, 2001.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64, Int64

BINS = 50
"""Number of bins of a histogram."""
_FARTHEST, _BEND = 20.0, 2.0
"""Beginning of the last bin, and the size up to which bins have about equal widths; beyond, they grow."""
EDGES: Float64[np.ndarray, "51"] = np.append(
    _BEND * np.sinh(np.linspace(0, np.arcsinh(_FARTHEST / _BEND), BINS)), np.inf
)
"""``(BINS + 1,)`` edges of the bins, in standardized sizes; the last bin is open."""
_PRIOR_ROWS = 20.0
"""Weight of the normal distribution, in rows; it matters where residuals are few."""


def histogram(residuals: Float64[np.ndarray, "n"], rows: int | None = None) -> Int64[np.ndarray, "50"]:
    """Count the sizes of residuals by the bins of `EDGES`.

    Parameters
    ----------
    residuals : ndarray
        ``(n,)`` standardized residuals.
    rows : int, optional
        Number of rows that the residuals stand for, by default n; the counts are scaled up to it.

    Examples
    --------
    >>> counts = histogram(np.array([0.01, -1e9]), rows=7)
    >>> counts.shape, int(counts[0]), int(counts[-1])
    ((50,), 4, 3)
    """
    # Whole numbers with the right sum: differences of rounded sums.
    reached = np.cumsum(np.histogram(np.abs(residuals), EDGES)[0])
    scale = 1.0 if rows is None else rows / len(residuals)
    return np.diff(np.rint(reached * scale).astype(np.int64), prepend=0)


@dataclass(frozen=True, eq=False)
class Calibration:
    """Distribution of the standardized error of a prediction.

    Attributes
    ----------
    counts : ndarray
        ``(BINS,)`` sizes of residuals by bin, summed over sites; zeros: errors are taken to be normal.
    parameters : int
        p, number of hyperparameters that were fitted to the same rows.

    Examples
    --------
    Without residuals a 95 % interval is that of the normal distribution; residuals half as large halve it:

    >>> normal = Calibration(np.zeros(BINS, np.int64))
    >>> round(normal.reach(0.95), 2)
    1.96
    >>> half = Calibration(histogram(0.5 * np.random.default_rng(0).normal(size=100_000)))
    >>> round(half.reach(0.95), 2)
    0.98
    """

    counts: Int64[np.ndarray, "50"]
    parameters: int = 0

    def reach(self, level: float) -> float:
        """Return half the width of the central interval of a level, in deviations."""
        from scipy.special import ndtri  # sites count residuals only, and need no distribution

        if not self.counts.any():
            return float(ndtri(0.5 + level / 2.0))
        return float(np.interp(-np.log1p(-level), *self._distribution()))

    def share_within(self, sizes: Float64[np.ndarray, "n"]) -> Float64[np.ndarray, "n"]:
        """Return the level of the interval that ends at each of some distances, in deviations.

        Examples
        --------
        >>> Calibration(np.zeros(BINS, np.int64)).share_within(np.array([0.0, 1.96])).round(2)
        array([0.  , 0.95])
        """
        from scipy.special import ndtr

        if not self.counts.any():
            return np.asarray(2.0 * ndtr(sizes) - 1.0)
        logarithms, ends = self._distribution()
        return np.asarray(-np.expm1(-np.interp(sizes, ends, logarithms)))

    def _distribution(self) -> tuple[Float64[np.ndarray, "50"], Float64[np.ndarray, "50"]]:
        """Return minus the logarithm of the share of larger errors, strictly increasing, and the sizes.

        Between the edges the logarithm is interpolated: tails are about exponential there.
        """
        from scipy.special import ndtr

        ends = EDGES[:-1]
        larger = np.cumsum(self.counts[::-1])[::-1] + _PRIOR_ROWS * 2.0 * ndtr(-ends)
        return -np.log(larger / larger[0]), ends * np.sqrt(1.0 + 2.0 * self.parameters / self.counts.sum())
