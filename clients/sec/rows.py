"""A learner's rows as its models get them: held out and grouped so that many runs reveal no few rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import count
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64

from clients.digest import digest_of
from clients.sec.disclosure import FEWEST_IN_A_CELL
from clients.sec.shard import FEWEST_HELD_OUT, n_held_out, sample_rows
from clients.site import Site
from numerics.shared.regression_rows import RegressionRows
from protocols.sec.payloads import Select
from protocols.sec.settings import Consents


def learner_rows(site: Site, standardize: str) -> RegressionRows:
    """Return the learner's rows as others' models get them; its test rows are the held-out ones."""
    rows, held_out = rows_and_held_out(site, standardize)
    return rows.with_test(held_out)


def rows_and_held_out(site: Site, standardize: str) -> tuple[RegressionRows, Bool[np.ndarray, "n"]]:
    """Return the rows that the learner's model is fitted to, and a mask of those that are held out in every ask.

    Held-out rows have no part in clusters and weights. The learner's own model is judged on them by fits without them.
    A scenario has test rows of its own, and holds out no other. If persons are known, all rows of a person are held out
    together.
    """
    rows = sample_rows(site.shard)
    rows = rows.standardized() if standardize == "learner" else rows
    persons = np.zeros(0, np.int64)
    if site.has_private_rows:
        step = step_held_out(site.policy.at_least(FEWEST_HELD_OUT), len(rows.features), site.config)
        if n_test := n_held_out(len(rows.persons), site.config, step):
            persons = rows.persons[same_order(len(rows.persons))[:n_test]]
    elif site.config.get("protocol") and (n_test := n_held_out(len(rows.persons), site.config)):
        # Drawn from the number of rows, not from their content: runs with other inputs hold out the same rows.
        order = np.random.default_rng([site.seed, site.repetition, rows.n]).permutation(len(rows.persons))
        persons = rows.persons[order[:n_test]]
    return rows, rows.mask_of(persons)


def fit_settings(site: Site, ask: Select) -> dict[str, Any]:
    """Return the settings of `numerics.sec.selection.select`. Leaves have as many rows as the site demands, or more.

    At a real site, trees of other seeds, of leaves of any size, or with thresholds between any two values would be
    further questions about the same rows.
    """
    digest, group, least = digest_of(site.shard), 1, site.consents.number("min-leaf", Consents.min_leaf)
    rng, min_leaf = site.rng_of(digest), max(ask.min_leaf, least)
    if site.has_private_rows:
        rng, group = np.random.default_rng(digest), site.rows_that_hold(FEWEST_IN_A_CELL)
        min_leaf = next(leaf for leaf in (least << power for power in count()) if leaf >= ask.min_leaf)
    return {
        "standardize": ask.standardize,
        "min_leaf": min_leaf,
        "rng_seed": int(rng.integers(2**31)),
        "group": group,
    }


def step_held_out(floor: int, p: int, config: Mapping[str, object]) -> int:
    """Return the step of the number of rows that a real site holds out.

    Runs may hold out different shares of the same rows. Models and moments of two runs then differ by so many rows or
    more: `floor`, and where moments of `p` inputs leave the site, p + 2 (the fewest whose moments do).

    Examples
    --------
    >>> step_held_out(5, 8, {}), step_held_out(5, 8, {"sec.combine": "pooled-linear"})
    (5, 10)
    """
    least = p + 2 if config.get("sec.combine") == "pooled-linear" else floor
    return floor * math.ceil(least / floor)


def same_order(n: int) -> Int64[np.ndarray, "n"]:
    """Return the order in which a real site holds rows, or persons, out: the same in all runs, whatever their seeds.

    Models, and moments, of many splits of the same rows would reveal every row (docs/sec.md). As in `sample_rows`, a
    row's number depends on its place only.

    Examples
    --------
    >>> few, more = same_order(9), same_order(10)
    >>> few.tolist() == [place for place in more.tolist() if place < 9]
    True
    """
    return np.random.default_rng(0).random(n).argsort()
