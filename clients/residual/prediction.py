"""The rows that a site has now, their names, and what its kept model of an earlier run says of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float64, UInt8, UInt64

from clients.data import DataError
from clients.keys import shared_secret
from clients.residual.agents import AgentError
from clients.residual.model_store import load_agent
from clients.residual.shard import columns_like
from clients.shards import logged_fault
from clients.site import Site
from common.entity_keys import keyed_hashes, secret_check
from numerics.residual.columns_and_outcomes import Columns
from protocols.wire.faults import Fault, SiteFault


def predicts(site: Site) -> bool:
    """Whether the run is one that predicts, by the models of an earlier run."""
    return bool(site.config.get("protocol")) and bool(str(site.config.get("from", "")).strip())


def present_rows(site: Site) -> Columns:
    """The site's rows: to learn from, or only their names where they are to be predicted.

    Which columns a kept model takes is known when it is recalled; of others nothing is asked.
    """
    if predicts(site):
        return _columns_like(site, (), {})
    columns: Columns = site.shard
    return columns


def keyed_names(
    columns: Columns, site: Site, salt: str, align: str
) -> tuple[UInt64[np.ndarray, "rows 2"], UInt8[np.ndarray, "_"], str]:
    """Keyed hashes of the names, the secret's check, and the kind of names; nothing where entities go by row."""
    if align == "row-order" or (columns.entity is None and align != "id"):
        return np.zeros((0, 2), np.uint64), np.zeros(0, np.uint8), ""
    if columns.entity is None:
        raise SiteFault(Fault.NO_ENTITIES)
    secret = shared_secret(site.config)
    return keyed_hashes(columns.entity, secret, salt), secret_check(secret, salt), columns.entity_kind


def predictions(site: Site, run: str, *, reader: str) -> tuple[Columns, Float64[np.ndarray, "n"]]:
    """The site's present rows, and what its kept model of a run says of each.

    Raises
    ------
    SiteFault
        Where the predictions are for the eyes of another than `reader`, a site, or if empty the fusion center.
    """
    kept = load_agent(site, run)
    if kept.reader != reader or (not reader and site.config.get("sealed-only", False)):
        raise SiteFault(Fault.SEALED_ONLY, f"the predictions of {run} are for {kept.reader or 'nobody else'}")
    columns = _columns_like(site, kept.features, kept.categories)
    try:
        return columns, kept.predict(columns.x)
    except AgentError as error:
        raise SiteFault(Fault.BAD_AGENT, str(error)) from error


def _columns_like(site: Site, features: tuple[str, ...], categories: Mapping[str, tuple[str, ...]]) -> Columns:
    try:
        return columns_like(site.table, site.config, features, categories)
    except DataError as error:
        raise logged_fault(error) from error
