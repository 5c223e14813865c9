"""Counts, means and covariances: all that a center learns about where the experts' rows lie."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64


@dataclass(frozen=True, eq=False)
class ExpertMoments:
    """Moments of the rows of m experts.

    Attributes
    ----------
    counts : ndarray
        ``(m,)`` rows of each expert, 1 or more.
    means : ndarray
        ``(m, d)`` of the inputs.
    covariances : ndarray
        ``(m, d, d)`` of the inputs, divided by the number of rows.
    y_mean, y_variance : ndarray
        ``(m,)`` of the outputs, the variance divided by the number of rows.
    """

    counts: Int64[np.ndarray, "m"]
    means: Float64[np.ndarray, "m d"]
    covariances: Float64[np.ndarray, "m d d"]
    y_mean: Float64[np.ndarray, "m"]
    y_variance: Float64[np.ndarray, "m"]

    @property
    def varies(self) -> Bool[np.ndarray, "d"]:
        """Whether an input is not the same in all rows of all experts."""
        within = np.einsum("mdd->d", self.covariances)
        return np.asarray(within + np.ptp(self.means, axis=0) > 0)

    @property
    def output_varies(self) -> bool:
        """Whether the output is not the same in all rows of all experts."""
        return bool(self.y_variance.sum() + np.ptp(self.y_mean) > 0)


@dataclass(frozen=True, eq=False)
class Units:
    """Where standardised inputs and outputs have their origin, and what their unit is.

    Attributes
    ----------
    mean, scale : ndarray
        ``(d,)``; the scale of an input that does not vary is 1.
    y_mean, y_scale : float
        The same of the output.
    """

    mean: Float64[np.ndarray, "d"]
    scale: Float64[np.ndarray, "d"]
    y_mean: float
    y_scale: float

    def inputs(self, x: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "n d"]:
        """Inputs in standardised units."""
        standardised: Float64[np.ndarray, "n d"] = (x - self.mean) / self.scale
        return standardised

    def outputs(self, y: Float64[np.ndarray, "n"]) -> Float64[np.ndarray, "n"]:
        """Outputs in standardised units."""
        standardised: Float64[np.ndarray, "n"] = (y - self.y_mean) / self.y_scale
        return standardised


def moments_of(
    x: Float64[np.ndarray, "n d"], y: Float64[np.ndarray, "n"], part: Int64[np.ndarray, "n"] | None = None
) -> ExpertMoments:
    """Moments of a site's experts.

    Parameters
    ----------
    x, y : ndarray
        ``(n, d)`` and ``(n,)`` rows, finite.
    part : ndarray, optional
        ``(n,)`` the expert of every row, numbered from 0 on and each with a row or more; by default there is one.

    Returns
    -------
    ExpertMoments
        The experts in the order of their numbers. The variance of equal numbers is exactly 0.

    Raises
    ------
    ValueError
        If there is no row, or an expert without one.
    """
    columns = np.column_stack([x, y])
    part = np.zeros(len(y), np.int64) if part is None else part
    counts = np.bincount(part)
    if not len(counts) or not counts.all():
        raise ValueError("every expert needs a row or more")
    means, covariances = zip(*(_moments(columns[part == i]) for i in range(len(counts))), strict=True)
    mean, covariance = np.stack(means), np.stack(covariances)
    return ExpertMoments(
        counts=counts.astype(np.int64),
        means=mean[:, :-1],
        covariances=covariance[:, :-1, :-1],
        y_mean=mean[:, -1],
        y_variance=covariance[:, -1, -1],
    )


def _moments(rows: Float64[np.ndarray, "n c"]) -> tuple[Float64[np.ndarray, "c"], Float64[np.ndarray, "c c"]]:
    """Mean and covariance of one expert's rows.

    From differences to the first row: those of equal numbers are 0, where a mean of equal numbers may be off by its
    last digit, and nothing is lost to an offset that is large beside the spread.
    """
    first = rows[0]
    centred = rows - first
    offset = centred.mean(axis=0)
    centred -= offset
    return first + offset, centred.T @ centred / len(rows)


def join(sites: Sequence[ExpertMoments]) -> ExpertMoments:
    """Moments of the experts of several sites, one site after the other."""
    return ExpertMoments(
        counts=np.concatenate([site.counts for site in sites]),
        means=np.concatenate([site.means for site in sites]),
        covariances=np.concatenate([site.covariances for site in sites]),
        y_mean=np.concatenate([site.y_mean for site in sites]),
        y_variance=np.concatenate([site.y_variance for site in sites]),
    )


def units_of(moments: ExpertMoments) -> Units:
    """Mean and standard deviation over the rows of all experts, as if they lay in one place.

    By the formula of Chan, Golub and LeVeque (1983): the variance is that within the experts and that between their
    means. What does not vary is only centred; that is told by a variance of exactly 0, which `moments_of` and this
    keep free of rounding errors.

    Parameters
    ----------
    moments : ExpertMoments
        Of one expert or more, in any units.

    Returns
    -------
    Units
    """
    mean, variance = _pooled(moments.counts, moments.means, np.einsum("mdd->md", moments.covariances))
    y_mean, y_variance = _pooled(moments.counts, moments.y_mean[:, None], moments.y_variance[:, None])
    return Units(mean, _scale(variance), float(y_mean[0]), float(_scale(y_variance)[0]))


def _pooled(
    counts: Int64[np.ndarray, "m"], means: Float64[np.ndarray, "m c"], variances: Float64[np.ndarray, "m c"]
) -> tuple[Float64[np.ndarray, "c"], Float64[np.ndarray, "c"]]:
    """Mean and variance of every column over all rows."""
    share = counts / counts.sum()
    # From differences to the first mean, for the reasons of `_moments`.
    centred = means - means[0]
    offset = share @ centred
    return means[0] + offset, share @ (variances + (centred - offset) ** 2)


def _scale(variance: Float64[np.ndarray, "c"]) -> Float64[np.ndarray, "c"]:
    """Standard deviations, 1 where nothing varies."""
    return np.where(variance > 0, np.sqrt(variance), 1.0)


def in_units(moments: ExpertMoments, units: Units) -> ExpertMoments:
    """The moments that the same rows have in standardised units."""
    return ExpertMoments(
        counts=moments.counts,
        means=units.inputs(moments.means),
        covariances=moments.covariances / (units.scale[:, None] * units.scale),
        y_mean=units.outputs(moments.y_mean),
        y_variance=moments.y_variance / units.y_scale**2,
    )
