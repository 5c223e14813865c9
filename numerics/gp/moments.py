"""Counts, means and covariances of the experts' rows: all that the center learns about their location."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64

MOST_SPREAD = 100.0
"""Largest spread of a site's outputs, relative to that of the median site (`remote`)."""
MOST_INPUT_SPREAD = 1e4
"""Largest spread of a site's input, relative to that of the median site: sites may lie far from each other."""
FEWEST_SITES = 3
"""With two sites that differ, nothing shows which one errs."""


@dataclass(frozen=True, eq=False)
class ExpertMoments:
    """Moments of the rows of m experts.

    Attributes
    ----------
    counts : ndarray
        ``(m,)`` number of rows of each expert, at least 1.
    means : ndarray
        ``(m, d)`` means of the inputs.
    covariances : ndarray
        ``(m, d, d)`` covariances of the inputs, with the divisor n.
    y_mean, y_variance : ndarray
        ``(m,)`` means and variances of the outputs, with the divisor n.

    Examples
    --------
    >>> moments = moments_of(np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([5.0, 5.0]))
    >>> moments.varies, moments.output_varies
    (array([ True, False]), False)
    """

    counts: Int64[np.ndarray, "m"]
    means: Float64[np.ndarray, "m d"]
    covariances: Float64[np.ndarray, "m d d"]
    y_mean: Float64[np.ndarray, "m"]
    y_variance: Float64[np.ndarray, "m"]

    @property
    def varies(self) -> Bool[np.ndarray, "d"]:
        """Whether each input varies over the rows of all experts, ``(d,)``."""
        within = np.einsum("mdd->d", self.covariances)
        return np.asarray(within + np.ptp(self.means, axis=0) > 0)

    @property
    def output_varies(self) -> bool:
        """Whether the output varies over the rows of all experts."""
        return bool(self.y_variance.sum() + np.ptp(self.y_mean) > 0)


@dataclass(frozen=True, eq=False)
class Units:
    """Origin and unit of standardized inputs and outputs.

    Attributes
    ----------
    mean, scale : ndarray
        ``(d,)`` of the inputs; the scale of a constant input is 1.
    y_mean, y_scale : float
        Of the output.

    Examples
    --------
    >>> Units(np.array([10.0]), np.array([2.0]), 0.0, 1.0).inputs(np.array([[14.0]]))
    array([[2.]])
    """

    mean: Float64[np.ndarray, "d"]
    scale: Float64[np.ndarray, "d"]
    y_mean: float
    y_scale: float

    def inputs(self, x: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "n d"]:
        """Convert inputs to standardized units."""
        standardized: Float64[np.ndarray, "n d"] = (x - self.mean) / self.scale
        return standardized

    def outputs(self, y: Float64[np.ndarray, "n"]) -> Float64[np.ndarray, "n"]:
        """Convert outputs to standardized units."""
        standardized: Float64[np.ndarray, "n"] = (y - self.y_mean) / self.y_scale
        return standardized


def moments_of(
    x: Float64[np.ndarray, "n d"], y: Float64[np.ndarray, "n"], part: Int64[np.ndarray, "n"] | None = None
) -> ExpertMoments:
    """Compute the moments of a site's experts.

    Parameters
    ----------
    x, y : ndarray
        ``(n, d)`` inputs and ``(n,)`` outputs, finite.
    part : ndarray, optional
        ``(n,)`` number of each row's expert, from 0 on without gaps; by default all rows are one expert's.

    Returns
    -------
    ExpertMoments
        In the order of the experts' numbers. The variance of equal numbers is exactly 0.

    Raises
    ------
    ValueError
        If there is no row, or an expert without one.

    Examples
    --------
    >>> moments = moments_of(np.array([[1.0], [3.0], [7.0]]), np.array([0.0, 2.0, 5.0]), np.array([0, 0, 1]))
    >>> moments.counts, moments.means.ravel(), moments.y_variance
    (array([2, 1]), array([2., 7.]), array([1., 0.]))
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
    """Compute mean and covariance of one expert's rows, from differences to the first row.

    The differences of equal numbers are exactly 0, whereas their mean may be off by its last digit. A large offset
    costs no precision.
    """
    first = rows[0]
    centered = rows - first
    offset = centered.mean(axis=0)
    centered -= offset
    return first + offset, centered.T @ centered / len(rows)


def join(sites: Sequence[ExpertMoments]) -> ExpertMoments:
    """Concatenate the moments of several sites' experts.

    Examples
    --------
    >>> site = moments_of(np.zeros((4, 1)), np.zeros(4))
    >>> join([site, site]).counts
    array([4, 4])
    """
    return ExpertMoments(
        counts=np.concatenate([site.counts for site in sites]),
        means=np.concatenate([site.means for site in sites]),
        covariances=np.concatenate([site.covariances for site in sites]),
        y_mean=np.concatenate([site.y_mean for site in sites]),
        y_variance=np.concatenate([site.y_variance for site in sites]),
    )


def units_of(
    moments: ExpertMoments,
    usual: Bool[np.ndarray, "m"] | None = None,
    usual_inputs: Bool[np.ndarray, "m d"] | None = None,
) -> Units:
    """Compute mean and standard deviation over the rows of all experts, as if they were in one place.

    The variance is the sum of that within the experts and that between their means (Chan, Golub and LeVeque 1983). A
    constant column is only centered; its variance is exactly 0, without rounding errors.

    Parameters
    ----------
    moments : ExpertMoments
        Moments of one expert or more, in any units.
    usual : ndarray, optional
        ``(m,)`` mask of the experts whose outputs count; by default all do.
    usual_inputs : ndarray, optional
        ``(m, d)`` mask of the experts that count in each input; by default all do.

    Returns
    -------
    Units

    Examples
    --------
    >>> units = units_of(moments_of(np.array([[1.0, 7.0], [3.0, 7.0]]), np.array([0.0, 4.0]), np.array([0, 1])))
    >>> units.mean, units.scale, units.y_scale
    (array([2., 7.]), array([1., 1.]), 2.0)
    """
    variances = np.einsum("mdd->md", moments.covariances)
    mean, variance = _pool(moments.counts, moments.means, variances)
    counting = np.ones(moments.means.shape, bool) if usual_inputs is None else usual_inputs
    for j in np.flatnonzero(~counting.all(axis=0)):
        those = counting[:, j]
        own = _pool(moments.counts[those], moments.means[those, j, None], variances[those, j, None])
        mean[j], variance[j] = own[0][0], own[1][0]
    of = slice(None) if usual is None else usual
    y_mean, y_variance = _pool(moments.counts[of], moments.y_mean[of, None], moments.y_variance[of, None])
    return Units(mean, _scale(variance), float(y_mean[0]), float(_scale(y_variance)[0]))


def _pool(
    counts: Int64[np.ndarray, "m"], means: Float64[np.ndarray, "m c"], variances: Float64[np.ndarray, "m c"]
) -> tuple[Float64[np.ndarray, "c"], Float64[np.ndarray, "c"]]:
    """Compute mean and variance of every column over all rows."""
    share = counts / counts.sum()
    # Differences to the first mean, as in `_moments`.
    centered = means - means[0]
    offset = share @ centered
    return means[0] + offset, share @ (variances + (centered - offset) ** 2)


def _scale(variance: Float64[np.ndarray, "c"]) -> Float64[np.ndarray, "c"]:
    """Compute standard deviations; 1 for a constant column."""
    return np.where(variance > 0, np.sqrt(variance), 1.0)


def remote(moments: ExpertMoments, site: Int64[np.ndarray, "m"]) -> Bool[np.ndarray, "s"]:
    """Return which sites have outputs far from those of most sites: a wrong cell, another unit, or a lie.

    A site's spread is the mean square of its outputs around the median of all sites' means. A site is remote if its
    spread is more than `MOST_SPREAD` times the median of all sites' spreads: units that include it do not fit the other
    sites' outputs.

    Parameters
    ----------
    moments : ExpertMoments
        Moments of all experts, in any units.
    site : ndarray
        ``(m,)`` number of each expert's site, from 0 on without gaps.

    Returns
    -------
    ndarray
        ``(s,)``; nobody is remote among fewer than three sites, or where most sites have equal outputs.

    Examples
    --------
    >>> rows = [(np.zeros((3, 1)), np.array([0.0, 1.0, last])) for last in (2.0, 2.0, 2e6)]
    >>> remote(join([moments_of(x, y) for x, y in rows]), np.arange(3))
    array([False, False,  True])
    """
    return _remote(moments.counts, moments.y_mean, moments.y_variance, site, MOST_SPREAD)


def _remote(
    counts: Int64[np.ndarray, "m"],
    mean: Float64[np.ndarray, "m"],
    variance: Float64[np.ndarray, "m"],
    site: Int64[np.ndarray, "m"],
    most: float,
) -> Bool[np.ndarray, "s"]:
    count = np.bincount(site, counts)
    means = np.bincount(site, counts * mean) / count
    if len(count) < FEWEST_SITES:
        return np.zeros(len(count), bool)
    squares = variance + (mean - np.median(means)) ** 2
    spread = np.bincount(site, counts * squares) / count
    usual = float(np.median(spread))
    return np.asarray((usual > 0) & (spread > most * usual))


def remote_inputs(moments: ExpertMoments, site: Int64[np.ndarray, "m"]) -> Bool[np.ndarray, "s d"]:
    """Return which sites lie very far from most sites in which input, by the rule of `remote` with `MOST_INPUT_SPREAD`.

    One wrong cell would make a unit in which the other sites' rows look equal.

    Returns
    -------
    ndarray
        ``(s, d)``.

    Examples
    --------
    >>> rows = [np.array([[0.0, 5.0], [1.0, 7.0], [last, 6.0]]) for last in (2.0, 2.0, 2e6)]
    >>> remote_inputs(join([moments_of(x, np.zeros(3)) for x in rows]), np.arange(3)).tolist()
    [[False, False], [False, False], [True, False]]
    """
    variances = np.einsum("mdd->md", moments.covariances)
    pairs = zip(moments.means.T, variances.T, strict=True)
    columns = [_remote(moments.counts, *pair, site, MOST_INPUT_SPREAD) for pair in pairs]
    return np.stack(columns, axis=1)


def share_between(moments: ExpertMoments, lengths: Float64[np.ndarray, "d"]) -> float:
    """Return the share of the inputs' spread that lies between experts: about 0 if all have rows in the same places.

    Inputs count in units of the kernel's `lengths`. The share that chance brings is subtracted: it may be negative.

    Examples
    --------
    >>> apart = moments_of(np.array([[-1.0], [-2.0], [1.0], [2.0]]), np.zeros(4), np.array([0, 0, 1, 1]))
    >>> mixed = moments_of(np.array([[-1.0], [2.0], [1.0], [-2.0]]), np.zeros(4), np.array([0, 0, 1, 1]))
    >>> round(share_between(apart, np.ones(1)), 2), share_between(mixed, np.ones(1)) < 0
    (0.85, True)
    """
    n, weights = int(moments.counts.sum()), moments.counts / moments.counts.sum()
    between = weights @ np.square(moments.means - weights @ moments.means) @ lengths**-2.0
    within = weights @ np.einsum("mdd->md", moments.covariances) @ lengths**-2.0
    total = between + within
    return float(1 - within / total * (n - 1) / max(1, n - len(weights))) if total > 0 else 0.0


def in_units(moments: ExpertMoments, units: Units) -> ExpertMoments:
    """Convert moments to standardized units.

    Examples
    --------
    >>> moments = moments_of(np.array([[1.0], [5.0]]), np.zeros(2))
    >>> in_units(moments, units_of(moments)).covariances
    array([[[1.]]])
    """
    return ExpertMoments(
        counts=moments.counts,
        means=units.inputs(moments.means),
        covariances=moments.covariances / (units.scale[:, None] * units.scale),
        y_mean=units.outputs(moments.y_mean),
        y_variance=moments.y_variance / units.y_scale**2,
    )
