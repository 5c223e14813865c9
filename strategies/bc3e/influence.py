"""Influence of each site on the results of the others, from the sums that the fusion center holds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Int64

from numerics.bc3e.influence import chance_change, contradicting_site, label_change, membership_change
from strategies.bc3e.shared import SharedInstances
from strategies.influence import Influence

MEMBERSHIPS = "share of the other sites' cluster members whose class is another one without it"
LABELS = "share of the instances it shares whose class is another one without it"


def influence_of_sums(mass: Mapping[str, Mapping[str, Int64[np.ndarray, "k _"]]]) -> Influence:
    """Return the influence by the sums of common clusterings, at the parameters of the run.

    Parameters
    ----------
    mass : Mapping
        Sums ``T_m``, by site and clustering.
    """
    if len(mass) < 2:
        return Influence.unknown_since("the fusion center does not hold the sums of two single sites")
    total, tables = _tables_of(mass)
    if not total:
        return Influence.unknown_since("without a clustering, no site changes the result of another")
    return Influence(MEMBERSHIPS, None, {site: membership_change(total, own) for site, own in tables.items()})


def site_that_contradicts(mass: Mapping[str, Mapping[str, Int64[np.ndarray, "k _"]]], bits: int) -> str:
    """Return the site whose sums contradict those of all others; empty if there is none.

    Parameters
    ----------
    mass : Mapping
        Sums ``T_m``, by site and clustering.
    bits : int
        Fineness of their grid.
    """
    total, tables = _tables_of(mass)
    changes = {site: membership_change(total, own) for site, own in tables.items()}
    return contradicting_site(changes, {site: chance_change(total, own, bits) for site, own in tables.items()})


_Tables = list[Int64[np.ndarray, "k _"]]


def _tables_of(mass: Mapping[str, Mapping[str, Int64[np.ndarray, "k _"]]]) -> tuple[_Tables, dict[str, _Tables]]:
    """Return the sums over all sites of every clustering, and each site's own, 0 where it lacks the clustering."""
    total: dict[str, Int64[np.ndarray, "k _"]] = {}
    for tables in mass.values():
        for name, table in tables.items():
            total[name] = total.get(name, 0) + table
    empty = {name: np.zeros_like(table) for name, table in total.items()}
    return list(total.values()), {site: list((empty | dict(tables)).values()) for site, tables in mass.items()}


def influence_on_shared(shared: SharedInstances) -> Influence:
    """Return the influence by the shares of instances that several sites hold."""
    return Influence(LABELS, None, {site: label_change(*each) for site, each in shared.with_and_without().items()})
