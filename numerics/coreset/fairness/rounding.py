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
_SCALINGS = 200


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


def share_out(targets: Int64[np.ndarray, "H k"], masses: Float64[np.ndarray, "S H k"]) -> Int64[np.ndarray, "S H k"]:
    """Divide the targets among the sites, close to each site's own masses.

    The masses are scaled by rows and columns in turn until their sums are nearly right, and then rounded with the least
    sum of absolute differences.

    Parameters
    ----------
    targets : ndarray
        ``(H, k)`` whole masses of all sites together.
    masses : ndarray
        ``(S, H, k)`` masses of each site; over the centers they sum, up to rounding errors, to the site's rows of each
        group.

    Returns
    -------
    ndarray
        ``(S, H, k)`` whole masses of each site, which sum to its rows of each group, and over the sites to the targets.

    Raises
    ------
    ValueError
        If the sites and the targets have different numbers of rows of a group.

    Examples
    --------
    >>> share_out(np.array([[3, 1]]), np.array([[[1.9, 0.1]], [[1.2, 0.8]]]))
    array([[[2, 0]],
    <BLANKLINE>
           [[1, 1]]])
    """
    S, H, k = masses.shape
    rows = np.rint(masses.sum(axis=2)).astype(np.int64)
    if (rows.sum(axis=0) != targets.sum(axis=1)).any():
        raise ValueError("the sites' rows of some group are not as many as the targets ask for")
    scaled = _scale(masses, rows, targets)
    down = np.floor(near_whole(scaled.ravel()))
    fraction = np.maximum(scaled.ravel() - down, 0.0)
    # For each site, group and center: the mass rounded down, at cost 0; one more unit; and further ones, at cost 2.
    tail = np.repeat(np.arange(S * H), k)
    head = S * H + np.tile(np.arange(H * k), S)
    many = np.repeat(rows.ravel(), k)
    flow = flow_within(
        np.tile(tail, 3),
        np.tile(head, 3),
        np.zeros(3 * S * H * k, np.int64),
        np.concatenate([np.minimum(down.astype(np.int64), many), np.ones(S * H * k, np.int64), many]),
        np.concatenate([np.zeros(S * H * k), 2 * (1 - fraction), np.full(S * H * k, 2.0)]),
        np.concatenate([rows.ravel(), -targets.ravel()]),
    )
    assert flow is not None  # noqa: S101 - any site may send any of its rows to any center
    parts: Int64[np.ndarray, "S H k"] = flow.reshape(3, S, H, k).sum(axis=0)
    return parts


def _rounded_shares(masses: Float64[np.ndarray, "k"], total: int) -> Int64[np.ndarray, "k"]:
    """Scale to the total, and round to whole numbers with that sum, the largest remainders up."""
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
    eye = scipy.sparse.eye_array(H * k, format="csr")
    size = scipy.sparse.csr_array((np.ones(H * k), (np.arange(H * k), np.tile(np.arange(k), H))), shape=(H * k, k))
    of_group = scipy.sparse.csr_array((np.ones(H * k), (np.repeat(np.arange(H), k), np.arange(H * k))))
    total = size @ size.T
    over = eye - total.multiply(np.repeat(bounds.high, k)[:, None]).tocsr()
    short = total.multiply(np.repeat(bounds.low, k)[:, None]).tocsr() - eye
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


def _scale(
    masses: Float64[np.ndarray, "S H k"], rows: Int64[np.ndarray, "S H"], targets: Int64[np.ndarray, "H k"]
) -> Float64[np.ndarray, "S H k"]:
    """Scale the masses so that their sums over centers are the rows, and over sites nearly the targets."""
    scaled = masses
    for _ in range(_SCALINGS):
        scaled = scaled * _ratio(targets, scaled.sum(axis=0))
        scaled = scaled * _ratio(rows, scaled.sum(axis=2))[..., None]
        if np.abs(scaled.sum(axis=0) - targets).max(initial=0.0) <= WHOLE:
            break
    return scaled


def _ratio(target: Int64[np.ndarray, "*s"], sums: Float64[np.ndarray, "*s"]) -> Float64[np.ndarray, "*s"]:
    ratio: Float64[np.ndarray, "*s"] = np.divide(target, sums, out=np.zeros(sums.shape), where=sums > 0)
    return ratio
