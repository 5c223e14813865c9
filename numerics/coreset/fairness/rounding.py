"""Whole numbers of rows of every group at every center, over all sites and at each site, from smoothed masses.

Prices determine the masses approximately: smoothed masses satisfy the bounds up to the gap of the search for prices,
and are not whole. The functions here compute whole masses close to them with the right sums.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
from jaxtyping import Float64, Int64
from scipy.optimize import linprog

from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.flow import flow_within

WHOLE = 1e-4
"""Distance from a whole number, in rows, that counts as rounding of a linear program."""
_LIKELY = 1e-3
"""Likely rows of a site at a center where none is expected."""


def near_whole(masses: Float64[np.ndarray, "v"]) -> Float64[np.ndarray, "v"]:
    """Round masses that are whole up to the rounding errors of a linear program.

    Examples
    --------
    >>> near_whole(np.array([1.999999, 2.5]))
    array([2. , 2.5])
    """
    whole = np.rint(masses)
    return np.where(np.abs(masses - whole) <= WHOLE, whole, masses)


def whole_targets(
    masses: Float64[np.ndarray, "H k"], bounds: Bounds, totals: Int64[np.ndarray, "H"]
) -> Int64[np.ndarray, "H k"]:
    """Compute whole, essentially fair masses close to fractional ones.

    Parameters
    ----------
    masses : ndarray
        ``(H, k)`` not negative; those of each group sum to its total up to rounding errors.
    bounds : Bounds
        Definition of a fair cluster.
    totals : ndarray
        ``(H,)`` number of rows of each group.

    Returns
    -------
    ndarray
        ``(H, k)`` nearest fair masses (by the sum of absolute differences); each mass, and each center's sum, is
        rounded down or up. Two groups of equal weight with exact bounds are balanced exactly at every center.

    Raises
    ------
    ValueError
        If all rows as one cluster violate the bounds.

    Examples
    --------
    >>> bounds = Bounds.of(np.array([0.5, 0.5]), alpha=1.0)
    >>> whole_targets(np.array([[2.6, 2.4], [2.6, 2.4]]), bounds, np.array([5, 5]))
    array([[3, 2],
           [3, 2]])
    """
    if not bounds.admits(totals[None]):
        raise ValueError("no masses are fair: all rows taken as one cluster break the bounds")
    H, k = masses.shape
    if H == 2 and bounds.exact and totals[0] == totals[1]:
        return np.tile(_rounded_shares(masses.mean(axis=0), int(totals[0])), (2, 1))
    fair = _nearest_fair(masses, bounds, totals)
    cells, sizes = near_whole(fair.ravel()), near_whole(fair.sum(axis=0))
    group, cell, center, sink = np.arange(H), H + np.arange(H * k), H + H * k + np.arange(k), H + H * k + k
    # One more unit than the mass rounded down changes the distance by 1 - 2 f, with the fraction f.
    fraction = cells - np.floor(cells)
    low = np.floor(np.concatenate([cells, sizes])).astype(np.int64)
    high = np.ceil(np.concatenate([cells, sizes])).astype(np.int64)
    flow = flow_within(
        np.concatenate([np.repeat(group, k), cell, center]),
        np.concatenate([cell, np.tile(center, H), np.full(k, sink)]),
        np.concatenate([low[: H * k], low]),
        np.concatenate([high[: H * k], high]),
        np.concatenate([1 - fraction, np.zeros(H * k + k)]),
        np.concatenate([totals, np.zeros(H * k + k, np.int64), [-totals.sum()]]),
    )
    # Fractional masses within whole bounds exist, hence whole ones.
    assert flow is not None  # noqa: S101 - a theorem; no input changes it
    targets: Int64[np.ndarray, "H k"] = flow[: H * k].reshape(H, k)
    return targets


def whole_rows(masses: Float64[np.ndarray, "H k"]) -> Int64[np.ndarray, "H k"]:
    """Round a site's masses to whole rows, as many of each group as the masses sum to.

    Examples
    --------
    >>> whole_rows(np.array([[1.9, 0.6, 0.5], [0.0, 0.0, 0.0]]))
    array([[2, 1, 0],
           [0, 0, 0]])
    """
    totals = np.rint(masses.sum(axis=1)).astype(np.int64)
    return np.stack([_rounded_shares(own, total) for own, total in zip(masses, totals.tolist(), strict=True)])


def corrections_by_site(
    missing: Int64[np.ndarray, "H k"], masses: Float64[np.ndarray, "S H k"]
) -> Int64[np.ndarray, "S H k"]:
    """Divide corrections among sites whose own masses are not known exactly.

    Rows are taken from sites in proportion to their likely rows at the center, as from a site that has none nothing can
    be taken.

    Parameters
    ----------
    missing : ndarray
        ``(H, k)`` rows that all sites together lack at each center, negative where there are too many; those of each
        group sum to 0.
    masses : ndarray
        ``(S, H, k)`` likely masses of each site.

    Returns
    -------
    ndarray
        ``(S, H, k)``, which sum to `missing` over the sites, and to 0 over the centers.

    Examples
    --------
    >>> corrections_by_site(np.array([[1, -1]]), np.array([[[9.0, 0.0]], [[4.0, 6.0]]]))[:, 0]
    array([[ 0,  0],
           [ 1, -1]])
    """
    S, _, k = masses.shape
    corrections = np.zeros(masses.shape, np.int64)
    for h, own in enumerate(missing):
        taken = np.stack([_rounded_shares(masses[:, h, c] + _LIKELY, max(0, -int(own[c]))) for c in range(k)])
        corrections[:, h] -= taken.T
        # The same site gives a row elsewhere: one row from one center to another.
        givers = np.repeat(np.tile(np.arange(S), k), taken.ravel())
        np.add.at(corrections[:, h], (givers, np.repeat(np.arange(k), np.maximum(own, 0))), 1)
    return corrections


def corrected(own: Int64[np.ndarray, "H k"], corrections: Int64[np.ndarray, "H k"]) -> Int64[np.ndarray, "H k"]:
    """Correct a site's whole masses as far as it has the rows.

    Parameters
    ----------
    own : ndarray
        ``(H, k)`` not negative.
    corrections : ndarray
        ``(H, k)`` those of each group sum to 0.

    Examples
    --------
    One of three rows can be taken from the last center:

    >>> corrected(np.array([[4, 0, 1]]), np.array([[2, 1, -3]]))
    array([[5, 0, 0]])
    """
    wanted, supply = np.maximum(-corrections, 0), np.maximum(corrections, 0)
    taken = np.minimum(wanted, own)
    before = np.cumsum(supply, axis=1) - supply
    return np.asarray(own - taken + np.clip(taken.sum(axis=1, keepdims=True) - before, 0, supply))


def _rounded_shares(masses: Float64[np.ndarray, "k"], total: int) -> Int64[np.ndarray, "k"]:
    """Scale to the total, and round to whole numbers with that sum, the largest remainders up."""
    if not total:
        return np.zeros(len(masses), np.int64)
    scaled = near_whole(masses * (total / masses.sum()))
    whole: Int64[np.ndarray, "k"] = np.floor(scaled).astype(np.int64)
    order = np.argsort(whole - scaled, kind="stable")
    missing = total - int(whole.sum())
    np.add.at(whole, order[: max(0, missing)], 1)
    return whole


def _nearest_fair(
    masses: Float64[np.ndarray, "H k"], bounds: Bounds, totals: Int64[np.ndarray, "H"]
) -> Float64[np.ndarray, "H k"]:
    """Compute fair masses ``y = m + up - down`` with these totals, at the least sum ``up + down`` of differences."""
    H, k = masses.shape
    eye, every = scipy.sparse.eye_array(k), np.ones((len(bounds.low), H))
    sums = scipy.sparse.kron(bounds.sums(np.eye(H)), eye, format="csr")
    of_group = scipy.sparse.csr_array((np.ones(H * k), (np.repeat(np.arange(H), k), np.arange(H * k))))
    total = scipy.sparse.kron(every, eye, format="csr")
    over = sums - total.multiply(np.repeat(bounds.high, k)[:, None]).tocsr()
    short = total.multiply(np.repeat(bounds.low, k)[:, None]).tocsr() - sums
    limits, flat = scipy.sparse.vstack([over, short], format="csr"), masses.ravel()
    solution = linprog(
        np.ones(2 * H * k),
        A_ub=scipy.sparse.hstack([limits, -limits], format="csr"),
        b_ub=-(limits @ flat),
        A_eq=scipy.sparse.hstack([of_group, -of_group], format="csr"),
        b_eq=totals - of_group @ flat,
        bounds=list(zip([0.0] * (2 * H * k), [np.inf] * (H * k) + flat.tolist(), strict=True)),
        method="highs",
    )
    if solution.status != 0:
        raise ArithmeticError(f"fair masses near {H} x {k} masses were not found: {solution.message}")
    up, down = np.split(np.asarray(solution.x), 2)
    fair: Float64[np.ndarray, "H k"] = np.maximum(flat + up - down, 0.0).reshape(H, k)
    return fair
