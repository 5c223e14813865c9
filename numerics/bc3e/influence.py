"""What a site changes in the result of others: the classes of clusters, and of instances that several sites hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float64, Int64

NOTABLE = 0.05
"""Change of the others' results from which a site may contradict them."""
_TIMES_THE_NEXT = 2.0


def contradicting_site(changes: Mapping[str, float]) -> str:
    """Return the site that contradicts the others; empty if there is none, or too few sites to tell.

    It changes the others' results by more than `NOTABLE`, and by more than twice as much as any other site. Of two
    sites neither is in the minority, so there must be three.

    Parameters
    ----------
    changes : Mapping[str, float]
        By site, `membership_change`.

    Examples
    --------
    >>> contradicting_site({"a": 0.02, "b": 0.15, "c": 0.03}), contradicting_site({"a": 0.02, "b": 0.15, "c": 0.1})
    ('b', '')
    """
    if len(changes) < 3:
        return ""
    *_, second, first = sorted(changes, key=lambda site: changes[site])
    return first if changes[first] > max(NOTABLE, _TIMES_THE_NEXT * changes[second]) else ""


def membership_change(total: Sequence[Int64[np.ndarray, "k _"]], own: Sequence[Int64[np.ndarray, "k _"]]) -> float:
    """Return by how much the classes of clusters differ with a site's mass and without it.

    A cluster's classes are the shares of its column of T_m (eq. 7). The total variation distance between the classes
    with and without the site is averaged over the clusters, weighted by the other sites' number of labels.

    Parameters
    ----------
    total : sequence of ndarray
        ``T_m`` over all sites, ``(k, k_m)`` for each clustering.
    own : sequence of ndarray
        The same of the site.

    Returns
    -------
    float
        0 (nothing changes) to 1; 0 where the other sites have no labels.

    Examples
    --------
    >>> membership_change([np.array([[3, 0], [1, 4]])], [np.array([[0, 0], [1, 1]])])
    0.125
    """
    weighted, weight = 0.0, 0.0
    for both, site in zip(total, own, strict=True):
        others = (both - site).astype(float)
        labels = others.sum(axis=0)
        known = labels > 0
        distance = np.abs(_shares(both[:, known].astype(float)) - _shares(others[:, known])).sum(axis=0) / 2
        weighted += float(labels[known] @ distance)
        weight += float(labels.sum())
    return weighted / weight if weight else 0.0


def _shares(mass: Float64[np.ndarray, "k c"]) -> Float64[np.ndarray, "k c"]:
    return np.asarray(mass / mass.sum(axis=0))


def label_change(gamma: Float64[np.ndarray, "k n"], without: Float64[np.ndarray, "k n"]) -> float:
    """Return the share of instances whose class changes; 0 without instances.

    Examples
    --------
    >>> label_change(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([[2.0, 3.0], [1.0, 2.0]]))
    0.5
    """
    return float((gamma.argmax(axis=0) != without.argmax(axis=0)).mean()) if gamma.shape[1] else 0.0
