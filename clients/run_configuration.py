"""The run configuration at a site, completed for predictions and for runs of another ServerApp."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

from flwr.app import Context

from clients.data.source import is_simulated
from clients.logged_fault import LoggedFault
from clients.shards import has_own_data
from common.results import PREDICT
from protocols import registry
from protocols.prediction import PredictionError, resolve
from protocols.wire.faults import Fault
from protocols.wire.message import Ask

logger = logging.getLogger("flwr")


def configure_simulated_prediction(context: Context) -> Context:
    """Complete a simulated site's configuration of a prediction with that of the earlier run.

    Raises
    ------
    SiteFault
        If there is no such earlier run.

    Examples
    --------
    >>> from flwr.app import RecordDict
    >>> learning = Context(1, 5, {"partition-id": 0}, RecordDict(), {"scenario": "wine"})
    >>> configure_simulated_prediction(learning) is learning
    True
    """
    config = context.run_config
    if config.get("scenario") != PREDICT or not is_simulated(context.node_config):
        return context
    return _with(context, dict(_resolve(tuple(sorted(config.items())))))


def configure_protocol(context: Context, ask: Ask) -> Context:
    """Add the ask's protocol to a run configuration that names none.

    It names none when real sites predict, and when the ServerApp is not consilience's. An ask without parcels needs no
    data; an ask of several protocols is refused later.
    """
    config = context.run_config
    if config.get("protocol") or not has_own_data(config):
        return context
    payloads = [parcel.payload for parcel in (*ask.parcels, *(each for _, past in ask.history for each in past))]
    titles = [title for each in payloads for title in (each.title(), getattr(each, "inner", ""))]  # of a masked ask
    protocol = next((name for title in titles if registry.exists(name := title.partition(".")[0])), "")
    return _with(context, {**config, "protocol": protocol}) if protocol else context


@lru_cache(maxsize=8)  # a simulation's workers answer for many sites
def _resolve(config: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    try:
        return dict(resolve(dict(config)))
    except PredictionError as error:
        raise LoggedFault(Fault.SCENARIO_UNAVAILABLE, str(error)) from error


def _with(context: Context, run_config: dict[str, Any]) -> Context:
    """Return the same context, with the same state, and another run configuration."""
    return Context(context.run_id, context.node_id, context.node_config, context.state, run_config, context.series_id)
