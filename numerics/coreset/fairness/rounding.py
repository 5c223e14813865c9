"""Whole numbers of what was priced: how many rows of every group go to every center, at all sites and at each.

Prices say nearly, not exactly, how many rows go where: the smoothed masses keep their bounds up to what the search for
the prices left, and are no whole numbers. Both functions find whole ones close by that add up.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
from jaxtyping import Float64, Int64
from scipy.optimize import linprog

from numerics.coreset.fairness.bounds import Bounds
from numerics.coreset.fairness.flow import flow_within

WHOLE = 1e-4
"""Distance from a whole number, in rows, that is a linear program's rounding."""
_SCALINGS = 200


def near_whole(masses: Float64[np.ndarray, "v"]) -> Float64[np.ndarray, "v"]:
    """Masses that are whole but for a linear program's rounding, whole."""
    whole = np.rint(masses)
    return np.where(np.abs(masses - whole) <= WHOLE, whole, masses)


def whole_targets(
    masses: Float64[np.ndarray, "H k"], bounds: Bounds, totals: Int64[np.ndarray, "H"]
) -> Int64[np.ndarray, "H k"]:
    """Whole masses near to given ones, essentially fair.

    Parameters
    ----------
    masses : ndarray
        ``(H, k)`` not negative; each group's sum to its total up to rounding errors.
    bounds : Bounds
        What is fair.
    totals : ndarray
        ``(H,)`` rows of each group.

    Returns
    -------
    ndarray
        ``(H, k)``: the nearest fair masses (least sum of differences), every one and every center's sum rounded down or
        up. Two groups of equal weight that are to be balanced exactly are so at every center.

    Raises
    ------
    ValueError
        If all rows taken as one cluster break the bounds.
    """
    if not bounds.admits(totals[None]):
        raise ValueError("no masses are fair: all rows taken as one cluster break the bounds")
    H, k = masses.shape
    if H == 2 and bounds.exact and totals[0] == totals[1]:
        return np.tile(_rounded_shares(masses.mean(axis=0), int(totals[0])), (2, 1))
    fair = _nearest_fair(masses, bounds, totals)
    cells, sizes = near_whole(fair.ravel()), near_whole(fair.sum(axis=0))
    group, cell, center, sink = np.arange(H), H + np.arange(H * k), H + H * k + np.arange(k), H + H * k + k
    # A unit more than the mass rounded down changes the distance by 1 - 2 f, f the fraction: cheap where f is large.
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
    assert flow is not None, "fractional masses within whole bounds exist, hence whole ones"
    targets: Int64[np.ndarray, "H k"] = flow[: H * k].reshape(H, k)
    return targets


def share_out(targets: Int64[np.ndarray, "H k"], masses: Float64[np.ndarray, "S H k"]) -> Int64[np.ndarray, "S H k"]:
    """Every site's part of the targets, near to what its own rows want.

    Parameters
    ----------
    targets : ndarray
        ``(H, k)`` whole masses of all sites together.
    masses : ndarray
        ``(S, H, k)`` of each site; over all centers they sum, up to rounding errors, to the site's rows of a group.

    Returns
    -------
    ndarray
        ``(S, H, k)``: every site keeps its rows of every group, and the sites' parts sum to the targets. The masses
        are scaled in proportion (by rows and columns in turn) until they nearly do, and then rounded, at the least
        sum of differences.

    Raises
    ------
    ValueError
        If the sites have other rows of some group than the targets.
    """
    S, H, k = masses.shape
    rows = np.rint(masses.sum(axis=2)).astype(np.int64)
    if (rows.sum(axis=0) != targets.sum(axis=1)).any():
        raise ValueError("the sites' rows of some group are not as many as the targets ask for")
    wanted = _scaled(masses, rows, targets)
    down = np.floor(near_whole(wanted.ravel()))
    fraction = np.maximum(wanted.ravel() - down, 0.0)
    # Of each site, group and center: the mass rounded down, at no cost; one more unit; and any more, at the cost of 2.
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
    assert flow is not None, "any site may send any of its rows to any center"
    parts: Int64[np.ndarray, "S H k"] = flow.reshape(3, S, H, k).sum(axis=0)
    return parts


def _rounded_shares(masses: Float64[np.ndarray, "k"], total: int) -> Int64[np.ndarray, "k"]:
    """Whole numbers that sum to the total, in proportion, those with the largest remainders rounded up."""
    scaled = near_whole(masses * (total / masses.sum()))
    whole: Int64[np.ndarray, "k"] = np.floor(scaled).astype(np.int64)
    order = np.argsort(whole - scaled, kind="stable")
    missing = total - int(whole.sum())
    np.add.at(whole, order[: max(0, missing)], 1)
    return whole


def _nearest_fair(
    masses: Float64[np.ndarray, "H k"], bounds: Bounds, totals: Int64[np.ndarray, "H"]
) -> Float64[np.ndarray, "H k"]:
    """Fair masses with the given totals, at the least sum of differences ``up + down`` of ``y = m + up - down``."""
    H, k = masses.shape
    eye = scipy.sparse.eye_array(H * k, format="csr")
    size = scipy.sparse.csr_array((np.ones(H * k), (np.arange(H * k), np.tile(np.arange(k), H))), shape=(H * k, k))
    of_group = scipy.sparse.csr_array((np.ones(H * k), (np.repeat(np.arange(H), k), np.arange(H * k))))
    total = size @ size.T
    over = eye - total.multiply(np.repeat(bounds.high, k)[:, None]).tocsr()
    short = total.multiply(np.repeat(bounds.low, k)[:, None]).tocsr() - eye
    limits, flat = scipy.sparse.vstack([over, short], format="csr"), masses.ravel()
    found = linprog(
        np.ones(2 * H * k),
        A_ub=scipy.sparse.hstack([limits, -limits], format="csr"),
        b_ub=-(limits @ flat),
        A_eq=scipy.sparse.hstack([of_group, -of_group], format="csr"),
        b_eq=totals - of_group @ flat,
        bounds=list(zip([0.0] * (2 * H * k), [np.inf] * (H * k) + flat.tolist(), strict=True)),
        method="highs",
    )
    if found.status != 0:
        raise ArithmeticError(f"fair masses near {H} x {k} given ones were not found: {found.message}")
    up, down = np.split(np.asarray(found.x), 2)
    fair: Float64[np.ndarray, "H k"] = np.maximum(flat + up - down, 0.0).reshape(H, k)
    return fair


def _scaled(
    masses: Float64[np.ndarray, "S H k"], rows: Int64[np.ndarray, "S H"], targets: Int64[np.ndarray, "H k"]
) -> Float64[np.ndarray, "S H k"]:
    """Masses in proportion whose sums over centers are the rows and over sites nearly the targets."""
    wanted = masses
    for _ in range(_SCALINGS):
        wanted = wanted * _ratio(targets, wanted.sum(axis=0))
        wanted = wanted * _ratio(rows, wanted.sum(axis=2))[..., None]
        if np.abs(wanted.sum(axis=0) - targets).max(initial=0.0) <= WHOLE:
            break
    return wanted


def _ratio(wanted: Int64[np.ndarray, "*s"], had: Float64[np.ndarray, "*s"]) -> Float64[np.ndarray, "*s"]:
    ratio: Float64[np.ndarray, "*s"] = np.divide(wanted, had, out=np.zeros(had.shape), where=had > 0)
    return ratio
