"""The configuration of a run that predicts by what an earlier run has learned, as a site sees it."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

from flwr.app import Context

from clients.data.source import is_simulated
from common.results import PREDICT
from protocols import registry
from protocols.prediction import PredictionError, resolved
from protocols.wire.faults import Fault, SiteFault
from protocols.wire.message import Ask

logger = logging.getLogger("flwr")


def configure_simulated_prediction(context: Context) -> Context:
    """Return a simulated site's context with the configuration of the run that has learned; any other context as it is.

    Raises
    ------
    SiteFault
        If there is no such run.
    """
    config = context.run_config
    if config.get("scenario") != PREDICT or not is_simulated(context.node_config):
        return context
    return _with(context, dict(_resolved(tuple(sorted(config.items())))))


def configure_real_prediction(context: Context, ask: Ask) -> Context:
    """Return a real site's context with the protocol of the ask; any other context as it is.

    An ask without parcels needs no data, and one of several protocols is refused later.
    """
    config = context.run_config
    if config.get("scenario") != PREDICT or is_simulated(context.node_config):
        return context
    parcels = [*ask.parcels, *(parcel for _, past in ask.history for parcel in past)]
    names = (type(parcel.payload).title().partition(".")[0] for parcel in parcels)
    protocol = next((name for name in names if registry.exists(name)), "")
    return _with(context, {**config, "protocol": protocol}) if protocol else context


@lru_cache(maxsize=8)  # a simulation's workers answer for many sites
def _resolved(config: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    try:
        return dict(resolved(dict(config)))
    except PredictionError as error:
        logger.error("%s", error)
        raise SiteFault(Fault.SCENARIO_UNAVAILABLE, str(error)) from error


def _with(context: Context, run_config: dict[str, Any]) -> Context:
    """Return the same context, with the same state, and another run configuration."""
    return Context(context.run_id, context.node_id, context.node_config, context.state, run_config, context.series_id)
