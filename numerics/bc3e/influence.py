"""What a site changes in the result of others: the classes of clusters, and of instances that several sites hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float64, Int64

NOTABLE = 0.05
"""Change of the others' results from which a site may contradict them."""
_TIMES_THE_NEXT, _TIMES_CHANCE = 2.0, 2.5
"""Least ratio of a contradicting site's change to the next site's, and to one by chance. In 200 honest runs the latter
was 1.6 at most, with swapped classes at one of five sites 4.0 at least."""


def contradicting_site(changes: Mapping[str, float], chance: Mapping[str, float]) -> str:
    """Return the site that contradicts the others; empty if there is none, or too few sites to tell.

    It changes the others' results by more than `NOTABLE`, by more than twice as much as any other site, and by more
    than chance explains: a site with most of the instances changes the others' results in any case. Of two sites
    neither is in the minority, so there must be three.

    Parameters
    ----------
    changes, chance : Mapping[str, float]
        By site, `membership_change` and `chance_change`.

    Examples
    --------
    >>> chance = dict.fromkeys("abc", 0.03)
    >>> contradicting_site({"a": 0.02, "b": 0.15, "c": 0.03}, chance)
    'b'
    >>> contradicting_site({"a": 0.02, "b": 0.15, "c": 0.1}, chance)
    ''
    """
    if len(changes) < 3:
        return ""
    *_, second, first = sorted(changes, key=lambda site: changes[site])
    least = max(NOTABLE, _TIMES_THE_NEXT * changes[second], _TIMES_CHANCE * chance[first])
    return first if changes[first] > least else ""


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


def chance_change(
    total: Sequence[Int64[np.ndarray, "k _"]], own: Sequence[Int64[np.ndarray, "k _"]], bits: int
) -> float:
    """Return the expected `membership_change` of a site whose clusters have the same classes as the others'.

    Shares of a class among n instances have a mean absolute error of ``sqrt(2 p (1 - p) / (pi n))``.

    Parameters
    ----------
    total, own
        As of `membership_change`.
    bits : int
        Fineness of the grid: an instance is a mass of ``2^bits``.

    Examples
    --------
    >>> chance_change([np.array([[8], [8]])], [np.array([[4], [4]])], 0) < membership_change(
    ...     [np.array([[8], [8]])], [np.array([[0], [8]])]
    ... )
    True
    """
    weighted, weight = 0.0, 0.0
    for both, site in zip(total, own, strict=True):
        everybody, here = np.ldexp(both.astype(float), -bits), np.ldexp(site.astype(float), -bits)
        n, n_here = everybody.sum(axis=0), here.sum(axis=0)
        labels = n - n_here
        known = (labels > 0) & (n_here > 0)
        share = _shares(everybody[:, known])
        errors = np.sqrt(2 / np.pi * share * (1 - share) * n[known] / (n_here * labels)[known]).sum(axis=0) / 2
        weighted += float(labels[known] @ (errors * n_here[known] / n[known]))
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
