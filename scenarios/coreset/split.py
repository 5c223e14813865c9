"""How rows are dealt out to sites: every split is an order of all rows, cut into one stretch a site."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int64

from scenarios.common import choice
from scenarios.registry import Config, ScenarioError

SPLITS = ("random", "column", "colour")
"""`coreset.split`: at random; along a column, so that sites differ; each site one colour, as far as possible."""


def split_of(config: Config) -> str:
    """`coreset.split`, at random if it is empty."""
    return choice(config, "coreset.split", SPLITS)


def check_rows(name: str, n_rows: int, n_sites: int) -> None:
    """Refuse to split rows over no site, or over more sites than there are rows."""
    if not 1 <= n_sites <= n_rows:
        raise ScenarioError(f"{name}: {n_rows} rows cannot be split over {n_sites} sites; use 1 to {n_rows}")


def even_edges(n_rows: int, n_sites: int) -> Int64[np.ndarray, "sites_and_one"]:
    """Where stretches begin and end whose lengths differ by one row at most."""
    return np.arange(n_sites + 1, dtype=np.int64) * n_rows // n_sites


def colour_edges(
    counts: Int64[np.ndarray, "h"], n_sites: int
) -> tuple[Int64[np.ndarray, "h"], Int64[np.ndarray, "sites_and_one"]]:
    """Sites of one colour each, as far as possible.

    With as many sites as colours or more, every colour has sites of its own, each next site going to the colour with
    most rows a site. With fewer sites, no colour is divided: the largest that is left goes to the site with the fewest
    rows.

    Parameters
    ----------
    counts : ndarray
        ``(H,)`` rows of each colour, all positive.
    n_sites : int
        From 1 to the number of rows.

    Returns
    -------
    order : ndarray
        ``(H,)``, the order in which the colours follow one another.
    edges : ndarray
        ``(n_sites + 1,)``, where in the rows so ordered the sites begin and end.
    """
    return _dealt(counts, n_sites) if n_sites < len(counts) else _divided(counts, n_sites)


def _divided(
    counts: Int64[np.ndarray, "h"], n_sites: int
) -> tuple[Int64[np.ndarray, "h"], Int64[np.ndarray, "sites_and_one"]]:
    sites = np.ones(len(counts), np.int64)
    for _ in range(n_sites - len(counts)):
        sites[np.argmax(counts / sites)] += 1
    starts = np.cumsum(counts) - counts
    stretches = [start + even_edges(int(n), int(s))[:-1] for start, n, s in zip(starts, counts, sites, strict=True)]
    return np.arange(len(counts), dtype=np.int64), np.append(np.concatenate(stretches), counts.sum())


def _dealt(
    counts: Int64[np.ndarray, "h"], n_sites: int
) -> tuple[Int64[np.ndarray, "h"], Int64[np.ndarray, "sites_and_one"]]:
    held, site_of = np.zeros(n_sites, np.int64), np.empty(len(counts), np.int64)
    for colour in np.argsort(-counts, kind="stable"):
        site_of[colour] = np.argmin(held)
        held[site_of[colour]] += counts[colour]
    return np.argsort(site_of, kind="stable").astype(np.int64), np.concatenate([[0], np.cumsum(held)])
