"""Predictions of rows to come, by what an agent has kept of a run."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64

from clients.residual.agents import AgentError
from clients.residual.columns import columns_like
from clients.residual.keep import recall
from clients.shards import own_log
from clients.site import Site
from numerics.columns import Columns
from protocols.faults import Fault, SiteFault


def predictions(site: Site, run: str) -> tuple[Columns, Float64[np.ndarray, "n"]]:
    """The site's present rows, and what its kept model of a run says of each."""
    from clients.data import DataError, Table

    kept, table = recall(site, run), site.own_data
    if not isinstance(table, Table):
        raise SiteFault(Fault.BAD_SHAPE, "the data function returned an Ensemble; rows to predict are a table")
    try:
        columns = columns_like(table, site.config, kept.features, kept.categories)
        return columns, kept.predict(columns.x)
    except DataError as error:
        raise own_log(error) from error
    except AgentError as error:
        raise SiteFault(Fault.BAD_AGENT, str(error)) from error
