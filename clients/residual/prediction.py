"""Present rows of a site, their keyed names, and their predictions by the site's model of an earlier run."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import numpy as np
from jaxtyping import Float64, UInt8, UInt64

from clients.data import DataError, Table
from clients.data.cells import text_of
from clients.data.preparation import filled
from clients.keys import shared_secret
from clients.residual.bins import predicted_bins
from clients.residual.methods import MethodError
from clients.residual.model_store import load_agent
from clients.residual.shard import columns_like
from clients.shards import logged_fault
from clients.site import Site
from common.entity_keys import keyed_hashes, secret_check
from common.grouping import list_names
from numerics.residual.columns_and_outcomes import Columns
from protocols.wire.faults import Fault, SiteFault

logger = logging.getLogger("flwr")

_MOST_SHOWN = 5
"""Most values in a line of the log."""


def predicts(site: Site) -> bool:
    """Return whether the run predicts by the models of an earlier run."""
    return bool(site.config.get("protocol")) and bool(str(site.config.get("from", "")).strip())


def present_rows(site: Site) -> Columns:
    """Return the site's rows; in a prediction with their names only.

    The stored model names the columns that a prediction needs (`predictions`).
    """
    if predicts(site):
        return _columns_like(site, (), {}, {})
    columns: Columns = site.shard
    return columns


def keyed_names(
    columns: Columns, site: Site, salt: str, align: str
) -> tuple[UInt64[np.ndarray, "rows 2"], UInt8[np.ndarray, "_"], str]:
    """Return keyed hashes of the names, hash of the secret, and kind of names; all empty if entities go by row."""
    if align == "row-order" or (columns.entity is None and align != "id"):
        return np.zeros((0, 2), np.uint64), np.zeros(0, np.uint8), ""
    if columns.entity is None:
        raise SiteFault(Fault.NO_ENTITIES)
    secret = shared_secret(site.config)
    return keyed_hashes(columns.entity, secret, salt), secret_check(secret, salt), columns.entity_kind


def predictions(
    site: Site, run: str, *, reader: str
) -> tuple[Columns, Float64[np.ndarray, "n c"] | UInt8[np.ndarray, "n c"]]:
    """Return the site's present rows and their predictions by its stored model of a run, or their bins.

    Parameters
    ----------
    site : Site
        The site.
    run : str
        Session of the run.
    reader : str
        The site that will read the predictions; empty: the fusion center.

    Raises
    ------
    SiteFault
        If another reader was agreed on in that run, or there is no model, or the columns do not fit it, or the site
        allows no bins any more.
    """
    model = load_agent(site, run)
    if model.reader != reader or (not reader and site.config.get("sealed-only", False)):
        raise SiteFault(Fault.SEALED_ONLY, f"the predictions of {run} are for {model.reader or 'nobody else'}")
    columns = _columns_like(site, model.features, model.categories, model.medians)
    if model.bins:
        return columns, predicted_bins(site, model.bins, columns, reader)
    try:
        return columns, model.predict(columns.x)
    except MethodError as error:
        raise SiteFault(Fault.BAD_AGENT, str(error)) from error


def _columns_like(
    site: Site,
    features: tuple[str, ...],
    categories: Mapping[str, tuple[str, ...]],
    medians: Mapping[str, float],
) -> Columns:
    table = filled(site.table, medians)
    try:
        columns = columns_like(table, site.config, features, categories)
    except DataError as error:
        raise logged_fault(error) from error
    if not site.replaying:
        log_new_categories(site.name, columns, table)
    return columns


def log_new_categories(name: str, columns: Columns, table: Table) -> None:
    """Say in the site's own log which rows have no category that the model has learned from."""
    for column, values in columns.categories.items():
        places = [columns.features.index(f"{column}={value}") for value in values]
        others = table.column(column)[~columns.x[:, places].any(axis=1)]
        if new := [text for text in text_of(others) if text]:
            logger.warning(
                "site %s: %d of %d rows are of categories of %r that the model does not know (%s): they count as none",
                name, len(new), columns.n, column, list_names(list(dict.fromkeys(new)), _MOST_SHOWN),
            )  # fmt: skip
