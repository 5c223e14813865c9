"""Bins of a site's columns, in place of an agent's predictions: only if the site allows it (``allow-bins``)."""

from __future__ import annotations

import hashlib
import json

import numpy as np
from jaxtyping import UInt8

from clients.digest import digest_of
from clients.keys import own_secret
from clients.residual.agent import FEWEST_EQUAL, Agent, agreed_rows
from clients.residual.model_store import SavedBins
from clients.site import Site
from numerics.residual.bins import MOST_BINS, ColumnBins
from numerics.residual.columns_and_outcomes import Columns
from protocols.residual.payloads import Bin, EntityBins
from protocols.wire.faults import Fault, SiteFault

_BINS = "bins"
"""Name in the memory: number of bins and eps of this run."""


def allows_bins(site: Site, reader: str) -> bool:
    """Return whether the bins may go to this reader; to the site itself, which holds the outcome, they do not leave."""
    return reader == site.name or site.consents.allows("allow-bins")


def give_bins(ask: Bin, agent: Agent) -> EntityBins:
    """Answer with the bins of the common rows; with none unless the site allows it.

    Raises
    ------
    SiteFault
        If the number of bins is none of the three, or another one than earlier in this run.
    """
    site = agent.site
    if ask.levels not in (MOST_BINS, MOST_BINS // 2, MOST_BINS // 4) or not 0 <= ask.epsilon <= 100:
        raise SiteFault(Fault.MALFORMED_ASK, f"{ask.levels} bins, eps {ask.epsilon}")
    if not site.commitments.keeps(f"bins {site.lane}", ask.levels, ask.epsilon):
        raise SiteFault(Fault.MALFORMED_ASK, "the run has had other bins")
    columns: Columns = site.shard
    if not (columns.x.shape[1] and allows_bins(site, agent.holder)):
        return EntityBins(np.zeros((0, 0), np.uint8), np.zeros(0, np.uint8), 0.0)
    epsilon = 0.0 if agent.holder == site.name else smallest_epsilon(site.config.get("bins-epsilon", 0.0), ask.epsilon)
    site.memory[_BINS] = np.frombuffer(json.dumps([ask.levels, epsilon]).encode(), np.uint8)
    saved = bins_of(site)
    return EntityBins(saved.apply(columns)[agreed_rows(site)], saved.bins.levels, epsilon)


def bins_of(site: Site) -> SavedBins:
    """Return the bins that the site has sent in this run.

    They are computed from all rows of the site, not from the common ones: so runs with other common rows reveal nothing
    more.
    """
    if _BINS not in site.memory:
        raise SiteFault(Fault.STALE_MEMORY, "this run has had no bins of the site")
    levels, epsilon = json.loads(site.memory[_BINS].tobytes())
    columns: Columns = site.shard
    bins = ColumnBins.of(columns, levels, site.rows_that_hold(FEWEST_EQUAL))
    return SavedBins(bins, epsilon, _key_of_draws(site, columns) if epsilon else b"")


def _key_of_draws(site: Site, columns: Columns) -> bytes:
    """Return the key of the draws of randomized response: a hash of the site's secret and of its columns.

    Without the secret, somebody who knows all of the file but one cell could test values of that cell by the draws.

    Raises
    ------
    SiteFault
        If a real site has no directory to keep its secret in.
    """
    content = np.array(digest_of(columns.x), np.uint32).tobytes()
    if site.simulated:
        return content
    if site.directory is None:
        raise SiteFault(Fault.BAD_CONFIGURATION, "configuration: bins-epsilon needs a site-output-dir, for its key")
    return hashlib.sha256(own_secret(site.directory) + content).digest()


def predicted_bins(site: Site, saved: SavedBins, columns: Columns, reader: str) -> UInt8[np.ndarray, "n c"]:
    """Return the bins of new rows, for the reader of the predictions."""
    if not allows_bins(site, reader):
        raise SiteFault(Fault.BINS_NOT_ALLOWED)
    return saved.apply(columns)


def smallest_epsilon(own: object, wanted: float) -> float:
    """Return the smaller eps of the site's own and the run's, 0 if neither wants any.

    Raises
    ------
    SiteFault
        If the site's own is no number from 0 to 100.

    Examples
    --------
    >>> smallest_epsilon(4, 2.0), smallest_epsilon(4.0, 0.0), smallest_epsilon(0.0, 0.0)
    (2.0, 4.0, 0.0)
    """
    if not (type(own) in (int, float) and isinstance(own, int | float) and 0 <= own <= 100):
        raise SiteFault(
            Fault.BAD_CONFIGURATION, f"configuration: bins-epsilon must be a number from 0 to 100, not {own!r}"
        )
    return float(min((each for each in (float(own), wanted) if each), default=0.0))
