"""Groups of weighted points, which change members while that brings points nearer to the means of their groups."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64, Int64

from numerics.coreset.compiler import njit

_Points = Float64[np.ndarray, "n d"]
_Weights = Int64[np.ndarray, "n"]
_Labels = Int64[np.ndarray, "n"]
_Masses = Int64[np.ndarray, "groups"]
_Means = Float64[np.ndarray, "groups d"]
_ROUNDS = 20
"""Largest number of times that every point and group is tried; in measurements, hardly any changes after ten."""
_LEAST_GAIN = 1e-9
"""Relative decrease below which nothing changes, since it may be a rounding error."""


@njit(cache=True)
def regroup(z: _Points, weights: _Weights, least: int, label: _Labels) -> None:
    """Change groups in place while squared distances from their means fall, and all groups stay heavy enough.

    A point moves to the group that it is nearest to, or changes places with one of that group's points. A group
    dissolves if all its points are better off in others.

    Parameters
    ----------
    z : ndarray
        ``(n, d)`` points.
    weights : ndarray
        ``(n,)`` their numbers of rows.
    least : int
        Fewest rows of a group. Every group must have as many.
    label : ndarray
        ``(n,)`` groups, numbered from 0 without gaps; afterwards some may have no points.

    Examples
    --------
    >>> z, label = np.array([[0.0], [0.1], [0.2], [9.0], [9.1]]), np.array([0, 0, 1, 1, 1])
    >>> regroup(z, np.ones(5, int), 2, label)
    >>> label
    array([0, 0, 0, 1, 1])
    """
    n_groups = 0
    for i in range(len(label)):
        n_groups = max(n_groups, label[i] + 1)
    mass, mean = np.zeros(n_groups, np.int64), np.zeros((n_groups, z.shape[1]))
    for i in range(len(z)):
        _add(z, i, weights[i], label[i], mass, mean)
    for _ in range(_ROUNDS):
        changed = False
        for i in range(len(z)):
            other, cost = _nearest(z, weights, i, label[i], mass, mean)
            if other >= 0:
                changed |= _move(z, weights, least, label, i, other, cost, mass, mean) or _exchange(
                    z, weights, least, label, i, other, mass, mean
                )
        for group in range(n_groups):
            changed |= mass[group] > 0 and _dissolve(z, weights, label, group, mass, mean)
        if not changed:
            break


@njit(cache=True)
def _add(z: _Points, i: int, rows: int, group: int, mass: _Masses, mean: _Means) -> None:
    """Add a point of this many rows to a group, or remove it if `rows` is negative."""
    mass[group] += rows
    if mass[group] > 0:
        for j in range(z.shape[1]):
            mean[group, j] += rows / mass[group] * (z[i, j] - mean[group, j])


@njit(cache=True)
def _squared(z: _Points, i: int, mean: _Means, group: int) -> float:
    squared = 0.0
    for j in range(z.shape[1]):
        squared += (z[i, j] - mean[group, j]) ** 2
    return squared


@njit(cache=True)
def _nearest(z: _Points, weights: _Weights, i: int, own: int, mass: _Masses, mean: _Means) -> tuple[int, float]:
    """Return the group other than its own that a point costs least to join, and what it costs."""
    best, least = -1, np.inf
    for group in range(len(mass)):
        if group != own and mass[group] > 0:
            cost = mass[group] * weights[i] / (mass[group] + weights[i]) * _squared(z, i, mean, group)
            if cost < least:
                best, least = group, cost
    return best, least


@njit(cache=True)
def _move(
    z: _Points,
    weights: _Weights,
    least: int,
    label: _Labels,
    i: int,
    other: int,
    cost: float,
    mass: _Masses,
    mean: _Means,
) -> bool:
    own = label[i]
    left = mass[own] - weights[i]
    if left < least or cost >= (1 - _LEAST_GAIN) * mass[own] * weights[i] / left * _squared(z, i, mean, own):
        return False
    _add(z, i, -weights[i], own, mass, mean)
    _add(z, i, weights[i], other, mass, mean)
    label[i] = other
    return True


@njit(cache=True)
def _exchange(
    z: _Points, weights: _Weights, least: int, label: _Labels, i: int, other: int, mass: _Masses, mean: _Means
) -> bool:
    """Exchange a point with the best partner in another group, if that lowers the squared distances."""
    own, best, change = label[i], -1, 0.0
    for o in range(len(z)):
        more = weights[o] - weights[i]
        if label[o] == other and mass[own] + more >= least and mass[other] - more >= least:
            between = _squared(z, i, z, o)
            now = _squared(z, i, mean, own) * weights[i] + _squared(z, o, mean, other) * weights[o]
            by = _change(z, weights, i, o, own, between, mass, mean)
            by += _change(z, weights, o, i, other, between, mass, mean)
            if by < min(change, -_LEAST_GAIN * now):
                best, change = o, by
    if best < 0:
        return False
    # Groups never become empty in between.
    _add(z, best, weights[best], own, mass, mean)
    _add(z, i, weights[i], other, mass, mean)
    _add(z, i, -weights[i], own, mass, mean)
    _add(z, best, -weights[best], other, mass, mean)
    label[i], label[best] = other, own
    return True


@njit(cache=True)
def _change(
    z: _Points, weights: _Weights, out: int, into: int, group: int, between: float, mass: _Masses, mean: _Means
) -> float:
    """Return how a group's squared distances change if a point leaves it and another one joins it."""
    leaving, joining = weights[out], weights[into]
    far_out, far_in = _squared(z, out, mean, group), _squared(z, into, mean, group)
    shift = joining**2 * far_in + leaving**2 * far_out - joining * leaving * (far_in + far_out - between)
    return float(joining * far_in - leaving * far_out - shift / (mass[group] + joining - leaving))


@njit(cache=True)
def _dissolve(z: _Points, weights: _Weights, label: _Labels, group: int, mass: _Masses, mean: _Means) -> bool:
    """Send a group's points to their nearest other groups, one after the other, if together they gain."""
    old_label, old_mass, old_mean = np.empty_like(label), np.empty_like(mass), np.empty_like(mean)
    _copy(label, mass, mean, old_label, old_mass, old_mean)
    gain = cost = 0.0
    mass[group] = 0
    for i in range(len(z)):
        if label[i] == group:
            gain += weights[i] * _squared(z, i, mean, group)
    for i in range(len(z)):
        if old_label[i] != group:
            continue
        other, more = _nearest(z, weights, i, group, mass, mean)
        cost += more
        if other < 0 or cost >= (1 - _LEAST_GAIN) * gain:
            _copy(old_label, old_mass, old_mean, label, mass, mean)
            return False
        _add(z, i, weights[i], other, mass, mean)
        label[i] = other
    return True


@njit(cache=True)
def _copy(label: _Labels, mass: _Masses, mean: _Means, to_label: _Labels, to_mass: _Masses, to_mean: _Means) -> None:
    """Copy groups; loops compile in a tenth of the time that slices take."""
    for i in range(len(label)):
        to_label[i] = label[i]
    for group in range(len(mass)):
        to_mass[group] = mass[group]
        for j in range(mean.shape[1]):
            to_mean[group, j] = mean[group, j]
