"""Splits of rows over sites: every split is an order of all rows, cut into one stretch for each site."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int64

from scenarios.common import choice
from scenarios.registry import Config, ScenarioError

SPLITS = ("random", "column", "group")
"""`coreset.split`: at random; along a column, so that sites differ; by group, one a site as far as possible."""


def split_of(config: Config) -> str:
    """Return `coreset.split`, at random if it is empty."""
    return choice(config, "coreset.split", SPLITS)


def check_rows(name: str, n_rows: int, n_sites: int) -> None:
    """Refuse to split rows over no site, or over more sites than there are rows."""
    if not 1 <= n_sites <= n_rows:
        raise ScenarioError(f"{name}: {n_rows} rows cannot be split over {n_sites} sites; use 1 to {n_rows}")


def even_edges(n_rows: int, n_sites: int) -> Int64[np.ndarray, "sites_and_one"]:
    """Return where stretches begin and end whose lengths differ by one row at most."""
    return np.arange(n_sites + 1, dtype=np.int64) * n_rows // n_sites


def group_edges(
    counts: Int64[np.ndarray, "h"], n_sites: int
) -> tuple[Int64[np.ndarray, "h"], Int64[np.ndarray, "sites_and_one"]]:
    """Return an order of the groups and a cut that gives each site one group, as far as possible.

    With as many sites as groups or more, every group has sites of its own, each next site going to the group with
    most rows a site. With fewer sites, no group is divided: the largest group that is left goes to the site with the
    fewest rows.

    Parameters
    ----------
    counts : ndarray
        ``(H,)`` rows of each group, all positive.
    n_sites : int
        From 1 to the number of rows.

    Returns
    -------
    order : ndarray
        ``(H,)``, the order in which the groups follow one another.
    edges : ndarray
        ``(n_sites + 1,)``, where in the rows so ordered the sites begin and end.
    """
    return _whole_groups(counts, n_sites) if n_sites < len(counts) else _divided_groups(counts, n_sites)


def _divided_groups(
    counts: Int64[np.ndarray, "h"], n_sites: int
) -> tuple[Int64[np.ndarray, "h"], Int64[np.ndarray, "sites_and_one"]]:
    sites = np.ones(len(counts), np.int64)
    for _ in range(n_sites - len(counts)):
        sites[np.argmax(counts / sites)] += 1
    starts = np.cumsum(counts) - counts
    stretches = [start + even_edges(int(n), int(s))[:-1] for start, n, s in zip(starts, counts, sites, strict=True)]
    return np.arange(len(counts), dtype=np.int64), np.append(np.concatenate(stretches), counts.sum())


def _whole_groups(
    counts: Int64[np.ndarray, "h"], n_sites: int
) -> tuple[Int64[np.ndarray, "h"], Int64[np.ndarray, "sites_and_one"]]:
    rows, site_of = np.zeros(n_sites, np.int64), np.empty(len(counts), np.int64)
    for group in np.argsort(-counts, kind="stable"):
        site_of[group] = np.argmin(rows)
        rows[site_of[group]] += counts[group]
    return np.argsort(site_of, kind="stable").astype(np.int64), np.concatenate([[0], np.cumsum(rows)])
